"""One update of a head from samples: chains of draft steps, and the forward KL of each to the
target's distribution.

Shapes: B samples, N entries, R chains, M rows of the loss, H width, D draft vocabulary.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mars_core.eagle3.head import Eagle3Head
from training.head.chain import unroll
from training.head.synthesis import TextSample
from training.optimiser import MatrixOptimiser

_ROWS = 256  # of the loss at a time


@dataclass(frozen=True, slots=True)
class Learning:
    """``steps``: unrolled steps of a chain; ``decay``: loss weight of a step, relative to the one
    before."""

    steps: int = 6
    decay: float = 0.9
    chains: int = 48  # of a sample, at most a quarter of its entries
    batch: int = 2_048  # entries of a process's update, padding included
    user_weight: float = 0.3  # of the user's tokens, relative to the answer's
    rate: float = 4e-3  # of Muon, for matrices
    vector_rate: float = 5e-4  # of AdamW, for norms
    warm_up: int = 12  # updates
    visits: int = 2  # of a shard


@dataclass(frozen=True, slots=True)
class UpdateResult:
    """Of one update: mean loss of a row, tokens learnt from, and the share of first steps whose
    best id is the target's."""

    loss: float
    tokens: int
    agreement: float


def batches(
    samples: Sequence[TextSample], size: int, rng: random.Random
) -> Iterator[list[TextSample]]:
    """Every sample once, those of similar length together, at most ``size`` entries with padding;
    in random order."""
    groups: list[list[TextSample]] = [[]]
    for sample in sorted(samples, key=lambda sample: len(sample.ids) + 40 * rng.random()):
        longest = max([len(sample.ids), *(len(each.ids) for each in groups[-1])])
        if groups[-1] and (len(groups[-1]) + 1) * longest > size:
            groups.append([])
        groups[-1].append(sample)
    rng.shuffle(groups)
    yield from groups


class Learner:
    """A head with its optimisers. ``prefix``: tokens of the template before the user's words, which
    are not learnt."""

    def __init__(self, head: Eagle3Head, how: Learning, prefix: int, seed: int) -> None:
        self.head, self.how, self._prefix = head, how, prefix
        self._rows = head.lm_head.weight.detach().to(torch.bfloat16)
        self._dice = torch.Generator(self._rows.device).manual_seed(seed)
        self.optimiser = MatrixOptimiser(head, how.rate, how.vector_rate)

    def update(
        self, samples: Sequence[TextSample], scale: float, share: Callable[[Sequence[Tensor]], None]
    ) -> UpdateResult:
        """``scale`` and ``share``: as of the optimiser."""
        loss, tokens, agreement = self._loss(samples)
        self.optimiser.update(loss, scale, share)
        return UpdateResult(float(loss.detach()), tokens, agreement)

    def _loss(self, samples: Sequence[TextSample]) -> tuple[Tensor, int, float]:
        """Each step's mean over its rows, weighted; then the weighted mean over steps."""
        how, device = self.how, self._rows.device
        ids, features, final, weights = (part.to(device) for part in self._collated(samples))
        count, width = ids.shape
        complete = (
            weights.unfold(1, how.steps, 1).gt(0).all(-1)
        )  # every step of a chain predicts a token that is learnt
        starts = torch.where(complete, weights[:, : width - how.steps + 1], 1e-9)
        chains = max(1, min(how.chains, width // 4))
        anchors = torch.multinomial(starts, chains, generator=self._dice)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            states = unroll(self.head, ids, features, anchors, how.steps)
        offsets = torch.arange(count, device=device)[:, None] * width
        places, shares, drafted, scales = [], [], [], [how.decay**step for step in range(how.steps)]
        for step, state in enumerate(states):
            at = (
                offsets
                + (torch.arange(width, device=device)[None] if step == 0 else anchors + step)
            ).flatten()
            weight = weights.flatten()[at]
            if step > 0:
                weight = weight * complete.gather(1, anchors).flatten()
            used = weight.nonzero()[:, 0]
            places.append(at[used])
            drafted.append(state.flatten(0, 1)[used])
            shares.append(scales[step] / sum(scales) * weight[used] / weight.sum())
        rows = final.flatten(0, 1)[torch.cat(places)]
        loss, agreed = Distillation.apply(torch.cat(drafted), rows, self._rows, torch.cat(shares))  # type: ignore[no-untyped-call]
        learnt = len(places[0])
        return loss, learnt, float(agreed[:learnt].float().mean())

    def _collated(self, samples: Sequence[TextSample]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Padded entries: ids [B, N], the features of the positions before them [B, N, layers · H],
        the target's last hidden states at them [B, N, H], and the weights [B, N] of what they
        predict, 0 where nothing is learnt."""
        width = max(max(len(sample.ids) for sample in samples) - 2, self.how.steps)
        ids = torch.zeros(len(samples), width, dtype=torch.long)
        weights = torch.zeros(len(samples), width)
        values = samples[0].values.new_zeros(len(samples), width + 1, samples[0].values.shape[1])
        for row, sample in enumerate(samples):
            count = len(sample.ids) - 2
            ids[row, :count] = sample.ids[1:-1]
            values[row, : count + 1] = sample.values
            weights[row, self._prefix : count] = self.how.user_weight
            weights[row, max(0, sample.start - 2) : count] = 1.0
        read = self.head.config.target_hidden_size * len(self.head.config.feature_layers)
        return ids, values[:, :-1, :read], values[:, 1:, read:], weights


class Distillation(torch.autograd.Function):
    """Σ w · KL(p ‖ q) with q = softmax(h Eᵀ) and p = softmax(f Eᵀ): drafted h [M, H], final f [M,
    H], rows E [D, H], shares w [M]. The gradient is made beside the loss, some rows at a time, so
    that no [M, D] is stored."""

    @staticmethod
    def forward(
        ctx: Any, drafted: Tensor, final: Tensor, rows: Tensor, shares: Tensor
    ) -> tuple[Tensor, Tensor]:
        gradient, agreed, loss = (
            torch.empty_like(drafted),
            [],
            drafted.new_zeros((), dtype=torch.float32),
        )
        for part in torch.arange(len(drafted)).split(_ROWS):
            at = slice(int(part[0]), int(part[-1]) + 1)
            drafts = (drafted[at].to(rows.dtype) @ rows.T).float()
            wanted = (final[at].to(rows.dtype) @ rows.T).float()
            agreed.append(drafts.argmax(-1) == wanted.argmax(-1))
            drafts, wanted = drafts.log_softmax(-1), wanted.log_softmax(-1)
            aim = wanted.exp()
            loss += (aim * (wanted - drafts)).sum(-1) @ shares[at]
            gradient[at] = ((drafts.exp_() - aim) * shares[at, None]).to(rows.dtype) @ rows
        ctx.save_for_backward(gradient)
        agreement = torch.cat(agreed)
        ctx.mark_non_differentiable(agreement)
        return loss, agreement

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradients[0] * gradient, None, None, None
