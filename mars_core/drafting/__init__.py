"""Drafters by name. A new one is a module of this folder with a ``DrafterKind``, and its row
here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from mars_core.drafting.base import Drafter, DrafterKind, Parts
from mars_core.drafting.eagle3 import EAGLE3
from mars_core.drafting.model import MODEL
from mars_core.drafting.ngram import NGRAM
from mars_core.drafting.none import NONE
from mars_core.drafting.suffix import SUFFIX
from mars_core.types import DrafterConfig

if TYPE_CHECKING:
    from mars_core.models import Pair


class Limit(NamedTuple):
    """The longest text, and the model whose context it is."""

    tokens: int
    model: str


DRAFTERS: Mapping[str, DrafterKind] = MappingProxyType(
    {
        each.name: each
        for each in (  # in the order of menus, behind the one that a pair begins with
            MODEL,
            EAGLE3,
            SUFFIX,
            NGRAM,
            NONE,
        )
    }
)


def drafter_kind(name: str) -> DrafterKind:
    """Raises ValueError for an unknown name."""
    if name not in DRAFTERS:
        raise ValueError(f"The drafter is {name!r}; it must be one of {', '.join(DRAFTERS)}.")
    return DRAFTERS[name]


def described(name: str) -> DrafterKind:
    """Return the kind of a stored run: what is not known here, such as the drafter of a server, has
    chains of K."""
    return DRAFTERS.get(name) or replace(
        NONE, name=name, title=name, drafts=f"{name} drafts", chains=True
    )


def offered(models: object) -> list[str]:
    """Return the drafters of which a pair (its description, or loaded) has the models, in the order
    of menus, ``none`` last; None: all. The first is the one that a run begins with."""
    first = getattr(getattr(models, "spec", models), "drafter", "")
    names = [
        name
        for name, kind in DRAFTERS.items()
        if models is None or not kind.part or kind.model(models) is not None
    ]
    return sorted(names, key=lambda name: name != first)


def context_limit(pair: Pair, drafter: DrafterConfig) -> Limit:
    """Return the limit of texts with drafts from ``drafter``."""
    target, draft = Limit(pair.context, pair.target_ref.name), pair.draft_ref
    if not draft or not pair.draft_context or drafter_kind(drafter.kind).ref(pair) is not draft:
        return target
    return min(target, Limit(pair.draft_context, draft.name))


__all__ = [
    "DRAFTERS",
    "Drafter",
    "DrafterKind",
    "Limit",
    "Parts",
    "context_limit",
    "described",
    "drafter_kind",
    "offered",
]
