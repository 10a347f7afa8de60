"""The form's view of a drafter: which of its fields each takes, which a pair offers. Plain
values."""

from __future__ import annotations

from collections.abc import Iterable

from mars_core.drafting import DRAFTERS
from mars_core.models import PairSpec
from mars_core.models.catalog import SMALL_TREE
from mars_core.types import TreeShape
from ui.kit.labels import drafter_title

TREE = "tree"  # what a drafter of trees drafts, or a CHAIN
TREE_NUMBERS = ("tree_tokens", "tree_depth", "tree_top_k")
FIELDS = ("k", "shape", *TREE_NUMBERS, "draft_mode")  # those that not every drafter takes


def choices(kinds: Iterable[str]) -> list[tuple[str, str]]:
    """Titles and names."""
    return [(drafter_title(kind), kind) for kind in kinds]


def tree_shape(spec: PairSpec | None) -> TreeShape:
    """Return what a tree looks like unless something else is requested."""
    return spec.tree or SMALL_TREE if spec else TreeShape()


def taken(name: str, shape: str) -> frozenset[str]:
    """Return which of ``FIELDS`` a drafter takes."""
    kind = DRAFTERS.get(name)
    if kind is None:
        return frozenset()
    tree = kind.trees and shape == TREE
    fields = TREE_NUMBERS if tree else ("k",) * kind.chains
    return frozenset((*fields, *("shape",) * kind.trees, *("draft_mode",) * (len(kind.modes) > 1)))
