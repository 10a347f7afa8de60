"""Drafters by name. A new one is a module of this folder with a ``DrafterKind``, and its row
here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from mars_core.drafting.base import Drafter, DrafterKind, Parts
from mars_core.drafting.eagle3 import EAGLE3
from mars_core.drafting.model import MODEL
from mars_core.drafting.ngram import NGRAM
from mars_core.drafting.none import NONE
from mars_core.drafting.suffix import SUFFIX
from mars_core.types import WITH_PROBABILITIES, DraftMode

DRAFTERS: Mapping[str, DrafterKind] = MappingProxyType(
    {
        each.name: each
        for each in (  # in the order of menus; a pair's default is the first that it offers
            MODEL,
            EAGLE3,
            SUFFIX,
            NGRAM,
            NONE,
        )
    }
)

if {n for n, kind in DRAFTERS.items() if DraftMode.COUPLED in kind.modes} != WITH_PROBABILITIES:
    raise TypeError("types.WITH_PROBABILITIES must name the drafters that can be coupled.")


def drafter_kind(name: str) -> DrafterKind:
    """Raises ValueError for an unknown name."""
    if name not in DRAFTERS:
        raise ValueError(f"The drafter is {name!r}; it must be one of {', '.join(DRAFTERS)}.")
    return DRAFTERS[name]


def described(name: str) -> DrafterKind:
    """Of a stored run: what is not known here, such as the drafter of a server, has chains of K."""
    return DRAFTERS.get(name) or replace(
        NONE, name=name, title=name, drafts=f"{name} drafts", chains=True
    )


def offered(models: object) -> list[str]:
    """The drafters of which a pair has the models, ``none`` last; None: all."""
    return [
        name
        for name, kind in DRAFTERS.items()
        if models is None or not kind.part or kind.model(models) is not None
    ]


__all__ = [
    "DRAFTERS",
    "Drafter",
    "DrafterKind",
    "Parts",
    "described",
    "drafter_kind",
    "offered",
]
