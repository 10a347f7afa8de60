"""Settings that are worth a name: the paper's own, the usual ones, and sets of rules to hold against each other. Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from mars_core.models import PairSpec
from mars_core.rules import PLAIN
from mars_core.types import TreeShape
from ui.settings.drafters import offered
from ui.settings.form import TREE

Rules = tuple[tuple[str, Mapping[str, float]], ...]
PAPER: Rules = (("strict", {}), ("mars", {"theta": 0.9}))


@dataclass(frozen=True, slots=True)
class Preset:
    """What a preset sets: the bar, what is under Advanced, and the rules from the left; prompt, length and seed stay."""

    title: str
    temperature: float
    k: int = 5
    drafter: str = "model"
    mode: str = "greedy"
    tree: TreeShape | None = None
    rules: Rules = PAPER

    @property
    def fields(self) -> dict[str, Any]:
        """Values by field of the form."""
        own = {"temperature": self.temperature, "drafter": self.drafter, "k": self.k, "mode": self.mode}
        tree = (
            {f"tree_{name}": value for name, value in asdict(self.tree).items()} | {"shape": TREE} if self.tree else {}
        )
        return {"top_k": 0, "top_p": 1.0} | own | tree


PRESETS: Mapping[str, Preset] = {
    "paper": Preset("Paper: T = 1, K = 7, θ = 0.9", 1.0, 7),
    "paper-tree": Preset(
        "Paper: EAGLE-3 tree, 60 tokens, depth 7", 1.0, drafter="eagle3", tree=TreeShape(60, 7, 10)
    ),
    "greedy": Preset("Greedy: T = 0, with the target alone", 0.0, rules=((PLAIN, {}), *PAPER)),
    "sampled": Preset("Sampled drafts: where MARS may lose", 1.0, mode="sampled"),
    "theta": Preset("Three θ: 0.84, 0.9, 0.98", 1.0, rules=(
        ("strict", {}), *(("mars", {"theta": theta}) for theta in (0.84, 0.9, 0.98)),
    )),
    "relaxed": Preset("MARS and other relaxed rules", 1.0, rules=(*PAPER, ("typical", {}), ("lenience", {}))),
}  # fmt: skip


def presets_for(spec: PairSpec | None) -> list[tuple[str, str]]:
    """Titles and keys of those whose drafter the pair has, after an empty choice."""
    return [("Presets", "")] + [
        (preset.title, key) for key, preset in PRESETS.items() if preset.drafter in offered(spec)
    ]
