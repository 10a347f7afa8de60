"""What the processes of a training have in common: means and sums over all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True, slots=True)
class TrainingProcess:
    """This process among all: its number, their count, and its device."""

    rank: int
    count: int
    device: torch.device

    def average(self, tensors: Sequence[Tensor]) -> None:
        """Average in place over all processes."""
        if self.count > 1:
            flat = torch.cat([tensor.flatten().float() for tensor in tensors])
            dist.all_reduce(flat)
            flat /= self.count
            for tensor, part in zip(
                tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True
            ):
                tensor.copy_(part.view_as(tensor))

    def reduced(self, value: Tensor, how: Any = dist.ReduceOp.SUM) -> Tensor:
        """Return the sum over all processes."""
        if self.count > 1:
            dist.all_reduce(value, how)
        return value

    def reduced_count(self, number: int, how: Any = dist.ReduceOp.SUM) -> int:
        return int(self.reduced(torch.tensor(number, device=self.device), how))
