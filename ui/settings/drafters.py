"""Drafters: which a pair offers, which of a form's fields each takes; and settings that are worth a name. Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from mars_core.models import PairSpec
from mars_core.rules import PLAIN
from mars_core.types import TreeShape
from ui.settings.form import TREE

TITLES: Mapping[str, str] = {"model": "Draft model", "eagle3": "EAGLE-3 head", "ngram": "N-gram lookup", "none": "None"}
SMALL_TREE = TreeShape(12, 6, 2)  # for the bundled pair: its target is too small to check more at no cost
TREE_NUMBERS = ("tree_tokens", "tree_depth", "tree_top_k")
FIELDS = ("k", "shape", *TREE_NUMBERS, "mode")  # those that not every drafter takes


def offered(spec: PairSpec | None, *, none: bool = True) -> list[str]:
    """The drafters that a pair has; None: one's own pair, which may have any. ``none``: whether drafting nothing is one of them."""
    missing = {"model": spec and spec.draft is None, "eagle3": spec and spec.head is None, "none": not none}
    return [kind for kind in TITLES if not missing.get(kind)]


def tree_shape(spec: PairSpec | None) -> TreeShape:
    """What a tree looks like unless something else is asked for."""
    return SMALL_TREE if spec and spec.key == "bundled" else TreeShape()


def taken(kind: str, shape: str) -> frozenset[str]:
    """Which of ``FIELDS`` a drafter takes."""
    by_kind = {
        "model": ("k", "mode"),
        "ngram": ("k",),
        "eagle3": ("shape", *TREE_NUMBERS) if shape == TREE else ("shape", "k"),
    }
    return frozenset(by_kind.get(kind, ()))


Rules = tuple[tuple[str, Mapping[str, float]], ...]
PAPER: Rules = (("strict", {}), ("mars", {"theta": 0.9}))
USUAL = {"temperature": 1.0, "drafter": "model", "k": 5, "mode": "greedy", "top_k": 0, "top_p": 1.0}
PAPER_TREE = {"drafter": "eagle3", "shape": TREE, "tree_tokens": 60, "tree_depth": 7, "tree_top_k": 10}


class Preset(NamedTuple):
    """What a preset sets: values by field of the form, and the rules from the left; prompt, length and seed stay."""

    title: str
    fields: Mapping[str, Any] = USUAL
    rules: Rules = PAPER


PRESETS: Mapping[str, Preset] = {
    "paper": Preset("Paper: T = 1, K = 7, θ = 0.9", USUAL | {"k": 7}),
    "paper-tree": Preset("Paper: EAGLE-3 tree, 60 tokens, depth 7", USUAL | PAPER_TREE),
    "greedy": Preset("Greedy: T = 0, with the target alone", USUAL | {"temperature": 0.0}, ((PLAIN, {}), *PAPER)),
    "sampled": Preset("Sampled drafts: where MARS may lose", USUAL | {"mode": "sampled"}),
    "theta": Preset("Three θ: 0.84, 0.9, 0.98", rules=(
        ("strict", {}), *(("mars", {"theta": theta}) for theta in (0.84, 0.9, 0.98)),
    )),
    "relaxed": Preset("MARS and other relaxed rules", rules=(*PAPER, ("typical", {}), ("lenience", {}))),
}  # fmt: skip


def presets_for(spec: PairSpec | None) -> list[tuple[str, str]]:
    """Titles and keys of those whose drafter the pair has, after an empty choice."""
    kinds = offered(spec)
    return [("Presets", ""), *((each.title, key) for key, each in PRESETS.items() if each.fields["drafter"] in kinds)]
