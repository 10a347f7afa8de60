"""No draft: plain autoregressive decoding of the target."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from mars_core.decoder.positions import Start
from mars_core.drafting.base import Inputs
from mars_core.verification import Draft


class NoDrafter:
    """Is never asked: it drafts at most 0 tokens."""

    longest = 0
    computes = False

    def begin(self, ids: Sequence[int], features: Tensor) -> None:
        """Nothing to read."""

    def inputs(self, ids: Sequence[int], limit: int) -> Inputs:
        return Inputs(0, 0)

    def draft(self, size: int, start: Start, numbers: Tensor, u: Tensor) -> Draft:
        raise AssertionError("nothing is drafted")

    def commit(self, ids: Sequence[int], path: Sequence[int]) -> None:
        """Nothing is cached."""
