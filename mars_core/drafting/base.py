"""The Drafter protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from torch import Tensor

from mars_core.decoder.positions import Start
from mars_core.verification import Draft


class Inputs(NamedTuple):
    """Inputs of a draft: host numbers that are copied to the device together."""

    size: int  # tokens to draft; at most the limit
    start: int  # position of the drafter's own cache at which it continues
    numbers: Sequence[int] = ()


class Drafter(Protocol):
    """One drafter serves one run at a time. ``ids`` is prompt and output so far; the target has not
    read the last one yet."""

    @property
    def longest(self) -> int:
        """Maximum number of tokens that it can draft in one step."""

    @property
    def computes(self) -> bool:
        """Whether ``draft`` computes on the device."""

    def begin(self, ids: Sequence[int], features: Tensor) -> None:
        """Resets the state and reads the prompt of a new run. ``features`` [len(ids) - 1, taps ·
        T]: the target's."""

    def inputs(self, ids: Sequence[int], limit: int) -> Inputs:
        """The inputs for a draft of at most ``limit`` ≥ 1 tokens after ``ids``."""

    def draft(self, size: int, start: Start, numbers: Tensor, noise: Tensor | None) -> Draft:
        """The draft from ``Inputs`` on the device. With ``noise`` [≥ size, V] for the positions
        from the next one on, tokens are drawn; without it the most likely ones are taken. Uses
        device operations only, whose shapes depend on ``size`` and the number of ``numbers`` only;
        may be called again with the same arguments."""

    def commit(self, ids: Sequence[int], path: Sequence[int]) -> None:
        """Of the nodes drafted after ``ids``, those on ``path`` (root 0 first) are now part of the
        text; the others are discarded."""
