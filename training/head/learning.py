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
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence

from mars_core.eagle3.head import Eagle3Head
from training.head.chain import unroll
from training.head.synthesis import TextSample
from training.optimiser import MatrixOptimiser

_ROWS = {"cpu": 256, "cuda": 8_192}  # of the loss at a time


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


def batches(
    samples: Sequence[TextSample], size: int, rng: random.Random
) -> Iterator[list[TextSample]]:
    """Yield every sample once, those of similar length together, at most ``size`` entries with
    padding; in random order."""
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
    ) -> Tensor:
        """``scale`` and ``share``: as of the optimiser. Returns the sums, over the tokens learnt
        from, of the mean loss of a row and of the first steps whose best id is the target's, and
        the number of these tokens: [3], on the device."""
        loss, agreed, tokens = self._loss(samples)
        self.optimiser.update(loss, scale, share)
        return torch.stack([loss.detach() * tokens, agreed, tokens])

    def _loss(self, samples: Sequence[TextSample]) -> tuple[Tensor, Tensor, Tensor]:
        """Return each step's mean over its rows, weighted; then the weighted mean over steps. With
        it, how many first steps agree, of how many."""
        how, device = self.how, self._rows.device
        ids, features, final, weights = self._collated(samples)
        count, width = ids.shape
        complete = (
            weights.unfold(1, how.steps, 1).gt(0).all(-1)
        )  # every step of a chain predicts a token that is learnt
        starts = torch.where(complete, weights[:, : width - how.steps + 1], 1e-9)
        chains = max(1, min(how.chains, width // 4))
        anchors = torch.multinomial(starts, chains, generator=self._dice)
        chained = complete.gather(1, anchors)
        offsets = torch.arange(count, device=device)[:, None] * width
        entries, shares, scales = [], [], [how.decay**step for step in range(how.steps)]
        for step in range(how.steps):
            at = torch.arange(width, device=device)[None] if step == 0 else anchors + step
            entries.append((offsets + at).flatten())
            weight = weights.flatten()[entries[-1]]
            if step > 0:
                weight = weight * chained.flatten()
            shares.append(scales[step] / sum(scales) * weight / weight.sum().clamp_min(1e-9))
        every, share = torch.cat(entries), torch.cat(shares)
        used = share.nonzero()[:, 0]  # the device is waited for here only, before the long work
        first = used < count * width
        with torch.autocast(device.type, dtype=torch.bfloat16):
            states = unroll(self.head, ids, features, anchors, how.steps)
        drafted = torch.cat([state.flatten(0, 1) for state in states])[used]
        rows = final.flatten(0, 1)[every[used]]
        loss, agreed = Distillation.apply(drafted, rows, self._rows, share[used])  # type: ignore[no-untyped-call]
        return loss, (agreed & first).sum(), first.sum()

    def _collated(self, samples: Sequence[TextSample]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Padded entries: ids [B, N], the features of the positions before them [B, N, layers · H],
        the target's last hidden states at them [B, N, H], and the weights [B, N] of what they
        predict, 0 where nothing is learnt."""
        device = self._rows.device
        lengths = [len(sample.ids) - 2 for sample in samples]
        missing = max(0, self.how.steps - max(lengths))
        ids = pad(pad_sequence([sample.ids[1:-1] for sample in samples], True), (0, missing))
        values = pad(pad_sequence([sample.values for sample in samples], True), (0, 0, 0, missing))
        bounds = [(n, max(0, each.start - 2)) for n, each in zip(lengths, samples, strict=True)]
        ends, starts = torch.tensor(bounds, device=device).T[..., None]
        at = torch.arange(ids.shape[1], device=device)
        weights = self.how.user_weight * (at >= self._prefix)
        weights = torch.where(at >= starts, 1.0, weights).masked_fill(at >= ends, 0)
        read = self.head.config.target_hidden_size * len(self.head.config.feature_layers)
        return ids.to(device), values[:, :-1, :read], values[:, 1:, read:], weights


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
        for part in torch.arange(len(drafted)).split(_ROWS[rows.device.type]):
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
