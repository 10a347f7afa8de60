"""The optimiser of both trainings: Muon for matrices, AdamW for tables and vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn


class MatrixOptimiser:
    """Of the parameters of ``model`` that need gradients. ``rate``: of Muon; ``vector_rate``: of
    AdamW."""

    def __init__(self, model: nn.Module, rate: float, vector_rate: float) -> None:
        trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
        matrices = {
            n for n, p in trained.items() if p.ndim == 2 and "embed" not in n and "lm_head" not in n
        }
        others = [p for n, p in trained.items() if n not in matrices]
        self._trained, self._rates = list(trained.values()), (rate, vector_rate)
        self.parts: tuple[torch.optim.Optimizer, ...] = (
            torch.optim.Muon(
                [p for n, p in trained.items() if n in matrices],
                lr=rate,
                weight_decay=0.05,
                adjust_lr_fn="match_rms_adamw",
            ),
            torch.optim.AdamW(others, lr=vector_rate, betas=(0.9, 0.95), weight_decay=0.01),
        )

    def update(
        self,
        loss: Tensor,
        scale: float,
        share: Callable[[Sequence[Tensor]], None] = lambda _gradients: None,
    ) -> None:
        """Make one step. ``scale``: of the rates; ``share`` averages the gradients over the
        processes, in place."""
        for part, rate in zip(self.parts, self._rates, strict=True):
            part.param_groups[0]["lr"] = rate * scale
            part.zero_grad()
        loss.backward()
        share([parameter.grad for parameter in self._trained if parameter.grad is not None])
        nn.utils.clip_grad_norm_(self._trained, 1.0)
        for part in self.parts:
            part.step()
