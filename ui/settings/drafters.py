"""Drafters: which a pair offers, which of a form's fields each takes. Plain values."""

from __future__ import annotations

from collections.abc import Mapping

from mars_core.models import PairSpec
from mars_core.types import TreeShape
from ui.settings.form import TREE

TITLES: Mapping[str, str] = {
    "model": "Draft model",
    "eagle3": "EAGLE-3 head",
    "ngram": "N-gram lookup",
    "none": "None",
}
SMALL_TREE = TreeShape(
    12, 6, 2
)  # for the bundled pair: its target is too small to check more at no cost
TREE_NUMBERS = ("tree_tokens", "tree_depth", "tree_top_k")
FIELDS = ("k", "shape", *TREE_NUMBERS, "mode")  # those that not every drafter takes


def offered(spec: PairSpec | None, *, none: bool = True) -> list[str]:
    """The drafters that a pair has; None: one's own pair, which may have any. ``none``: whether
    drafting nothing is one of them."""
    missing = {
        "model": spec and spec.draft is None,
        "eagle3": spec and spec.head is None,
        "none": not none,
    }
    return [kind for kind in TITLES if not missing.get(kind)]


def tree_shape(spec: PairSpec | None) -> TreeShape:
    """What a tree looks like unless something else is asked for."""
    return SMALL_TREE if spec and spec.key == "bundled" else TreeShape()


def taken(kind: str, shape: str) -> frozenset[str]:
    """Which of ``FIELDS`` a drafter takes."""
    by_kind = {
        "model": ("k", "mode"),
        "ngram": ("k",),
        "eagle3": ("shape", "mode", *TREE_NUMBERS) if shape == TREE else ("shape", "mode", "k"),
    }
    return frozenset(by_kind.get(kind, ()))
