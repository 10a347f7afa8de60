"""Settings that are worth a name: the paper's own, the usual ones, and sets of rules to hold
against each other. Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple
from typing import Any, NamedTuple

from mars_core.drafting import offered
from mars_core.drafting.eagle3 import EAGLE3
from mars_core.drafting.model import MODEL
from mars_core.models import PairSpec
from mars_core.rules import PLAIN
from mars_core.settings import PROCESSORS, Settings
from mars_core.types import TreeShape
from ui.settings.drafters import TREE, TREE_NUMBERS
from ui.settings.values import settings_values

Rules = tuple[tuple[str, Mapping[str, float]], ...]
PAPER: Rules = (("strict", {}), ("mars", {"theta": 0.9}))
_TABLE = settings_values(Settings(k=5, protect=()))
USUAL = {name: _TABLE[name] for name in ("k", "draft_mode", "top_k", "top_p", *PROCESSORS)}
GREEDY = {"draft_mode": "greedy"}
DRAFTED = USUAL | {"temperature": 1.0, "drafter": MODEL.name}
PAPER_TREE = GREEDY | {
    "drafter": EAGLE3.name,
    "shape": TREE,
    **dict(zip(TREE_NUMBERS, astuple(TreeShape()), strict=True)),
}


class Preset(NamedTuple):
    """What a preset sets: values by field of the form, and the rules from the left; the rest stays,
    such as prompt, length and seed."""

    title: str
    fields: Mapping[str, Any] = USUAL
    rules: Rules = PAPER


PRESETS: Mapping[str, Preset] = {
    "paper": Preset("Paper: T = 1, K = 7, θ = 0.9", DRAFTED | GREEDY | {"k": 7}),
    "paper-tree": Preset(
        "Paper: EAGLE-3 tree, 59 tokens, depth 8 (60, 7 in EAGLE)", DRAFTED | PAPER_TREE
    ),
    "coupled": Preset("Coupled drafts: what MARS still gains", DRAFTED),
    "greedy": Preset(
        "Greedy: T = 0, with the target alone", USUAL | {"temperature": 0.0}, ((PLAIN, {}), *PAPER)
    ),
    "sampled": Preset("Sampled drafts: where MARS may lose", DRAFTED | {"draft_mode": "sampled"}),
    "theta": Preset(
        "Three θ: 0.84, 0.9, 0.98",
        USUAL | GREEDY,
        (
            ("strict", {}),
            *(("mars", {"theta": theta}) for theta in (0.84, 0.9, 0.98)),
        ),
    ),
    "relaxed": Preset(
        "MARS and other relaxed rules", USUAL | GREEDY, (*PAPER, ("typical", {}), ("lenience", {}))
    ),
}


def presets_for(spec: PairSpec | None) -> list[tuple[str, str]]:
    """Titles and keys of those whose drafter, if they set one, the pair has, after an empty
    choice."""
    kinds = [None, *offered(spec)]
    return [
        ("Presets", ""),
        *(
            (each.title, key)
            for key, each in PRESETS.items()
            if each.fields.get("drafter") in kinds
        ),
    ]
