"""The Drafter protocol: who proposes tokens, and from what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from torch import Tensor

from mars_core.decoder.positions import Start
from mars_core.verification import Draft


class Inputs(NamedTuple):
    """What a draft is made from: numbers of the host that go to the device together."""

    size: int  # tokens of the text to be drafted; at most what was asked for
    start: int  # position of the drafter's own cache at which it goes on
    numbers: Sequence[int] = ()


class Drafter(Protocol):
    """One drafter serves one run at a time. ``ids`` always means prompt and output so far, the last one not yet seen by the target."""

    @property
    def longest(self) -> int:
        """How many tokens of the text it can draft in one step."""

    @property
    def computes(self) -> bool:
        """Whether ``draft`` is work for the device."""

    def begin(self, ids: Sequence[int], features: Tensor) -> None:
        """Reads the prompt of a new run; what an earlier run left is forgotten. ``features`` [len(ids) - 1, taps · T]: the target's."""

    def inputs(self, ids: Sequence[int], limit: int) -> Inputs:
        """For a draft of at most ``limit`` ≥ 1 tokens after ``ids``."""

    def draft(self, size: int, start: Start, numbers: Tensor, u: Tensor) -> Draft:
        """The draft, of ``Inputs`` on the device; u [size + 1, 3] from the next position on. Device operations alone, whose shapes
        follow from ``size`` and the number of ``numbers``; the same ones may be asked for again."""

    def commit(self, ids: Sequence[int], path: Sequence[int]) -> None:
        """Of the nodes drafted after ``ids`` those of ``path``, from the root (0) on, are in the text; the others never were."""
