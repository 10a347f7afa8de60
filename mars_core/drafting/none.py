"""No draft: plain autoregressive decoding of the target."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mars_core.verification import Draft, chain_draft


def without_draft(ids: Sequence[int], device: torch.device) -> Draft:
    """The tree that is only its root."""
    return chain_draft(torch.tensor(ids[-1:], device=device), torch.ones(0, device=device))


class NoDrafter:
    """Proposes nothing."""

    branches = False
    ahead = 0

    def __init__(self, device: torch.device) -> None:
        self._device = device

    @property
    def longest(self) -> int:
        return 0

    def prefill(self, ids: Sequence[int]) -> None:
        """Nothing to read."""

    def propose(self, ids: Sequence[int], limit: int, u: Tensor) -> Draft:
        return without_draft(ids, self._device)

    def commit(self, path: Sequence[int]) -> None:
        """Nothing to roll back."""

    def numbers(self, ids: Sequence[int]) -> list[int] | None:
        return [ids[-1]]

    def fixed(self, told: Tensor, u: Tensor, width: int) -> Draft:
        return chain_draft(told, torch.ones(0, device=told.device))

    def commit_fixed(self, ids: Sequence[int], path: Sequence[int]) -> None:
        """Nothing to roll back."""
