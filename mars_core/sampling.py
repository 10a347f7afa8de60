"""From logits to distributions and from distributions to tokens: warpers, noise, draws, residual.

Filtering (``target_distribution``) and drawing (``draw``) are separate; a residual is never
filtered again. A position has one noise value for every token id: the target's token is drawn with
it, and so may be the drafter's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from mars_core.types import DraftMode, Sampling

# above 0: logits are divided by it in float32, whose smallest normal number is 1.18e-38
LEAST_TEMPERATURE = 1.2e-38
_MASK = 2**64 - 1
_UNIT = 2.0**-31 * (
    1 - 2.0**-24
)  # maps 1 … 2³¹ to (0, 1), also where the integer is rounded up to 2³¹


class Use(IntEnum):
    """The use of each random word of a position: a column of ``words``."""

    DRAW = 0  # noise of the target's token, of the correction and of coupled drafts
    ACCEPT = 1  # keep or reject
    DRAFT = 2  # noise of sampled drafts


def words(seed: int, position: int, count: int) -> list[int]:
    """Random int64 words [count · 3], by position and Use, of a step whose first token has output
    position ``position``. Only DRAW is a function of the output position. A rule may look at the
    others at positions that the step does not reach (block verification, a window) and must not
    reuse them in the next step, so they also depend on the step."""
    run = _mix(seed)
    step = _mix(run ^ _mix(~position))
    return [
        word - 2**64 if word >= 2**63 else word
        for at in range(count)
        for word in (_mix(run + _mix(position + at)), _mix(step + 2 * at), _mix(step + 2 * at + 1))
    ]


def _mix(word: int) -> int:
    """Apply a bijection of 64-bit words (the finaliser of SplitMix64)."""
    word = (word + 0x9E3779B97F4A7C15) & _MASK
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _MASK
    return word ^ (word >> 31)


def shuffled(seed: int, count: int) -> list[int]:
    """Return 0 … ``count`` − 1 in a random order, the same everywhere."""
    run = _mix(seed)
    return sorted(range(count), key=lambda number: _mix(run + number))


def noise(keys: Tensor, size: int) -> Tensor:
    """Exponential noise E > 0 of token ids 0 … size − 1, float32 [.., size], from keys [..], int64.
    It is a function of key and id only; −ln E is Gumbel noise. Its 31 random bits are the same on
    every device; additions wrap, and x + (x >> n) mixes as an xor-shift does, for signed integers
    too."""
    low, high = (
        keys.int()[..., None],
        (keys >> 32).int()[..., None],
    )  # the conversion keeps the lower 32 bits
    bits = _ids(size, keys.device) ^ low
    bits.add_(bits >> 16).mul_(2146121005).bitwise_xor_(high)
    bits.add_(bits >> 15).mul_(-2073254261)
    bits.add_(bits >> 16).mul_(739982445).bitwise_or_(1)
    return bits.float().abs_().mul_(-_UNIT).log1p_().neg_()


@cache
def _ids(size: int, device: torch.device) -> Tensor:
    """Return the ids, mixed, int32 [size]. Do not write to it."""
    return torch.arange(size, dtype=torch.int32, device=device).mul_(-1640531527)


@dataclass(frozen=True, slots=True)
class Chance:
    """The random numbers of a step; row i is for the i-th position from the step's first on. Those
    of A texts have a dimension [A, …] before."""

    uniform: Tensor  # [N] float64, uniform in [0, 1): decides about keeping a drafted token
    noise: Tensor | None  # [N, V] of the target's draws; None at temperature 0
    draft: Tensor | None  # [N, V] of the drafter's; None: it takes its most likely tokens

    def of(self, rows: Sequence[int]) -> Chance:
        """Return those of some of the texts, ascending."""
        parts = (self.uniform, self.noise, self.draft)
        return Chance(*(None if part is None else picked(part, rows) for part in parts))  # type: ignore[arg-type]


def chance(words: Tensor, size: int, mode: DraftMode, temperature: float) -> Chance:
    """Return the random numbers that follow from words [.., N, 3]; ``size``: of the vocabulary."""
    uniform = (words[..., Use.ACCEPT] & (2**53 - 1)).double() * 2.0**-53
    if temperature == 0:
        return Chance(uniform, None, None)
    target_noise = noise(words[..., Use.DRAW], size)
    if mode is DraftMode.SAMPLED:
        return Chance(uniform, target_noise, noise(words[..., Use.DRAFT], size))
    return Chance(uniform, target_noise, target_noise if mode is DraftMode.COUPLED else None)


def picked(values: Tensor, rows: Sequence[int]) -> Tensor:
    """Some rows, ascending, [A, …] → [len(rows), …]; needs no index on the device."""
    first, last = rows[0], rows[-1]
    if last - first + 1 == len(rows):
        return values[first : last + 1]
    return torch.stack([values[row] for row in rows])


def joined(parts: Sequence[Tensor], rows: Sequence[Sequence[int]]) -> Tensor:
    """Return the rows that were ``picked`` as these parts, in order."""
    if len(parts) == 1:
        return parts[0]
    by_row = {
        row: part[at] for part, each in zip(parts, rows, strict=True) for at, row in enumerate(each)
    }
    return torch.stack([by_row[row] for row in sorted(by_row)])


def row_sums(values: Tensor) -> Tensor:
    """Sums over the last dimension, [N, V] → [N]. The sum of a single row would be divided among
    threads, and so rounded otherwise."""
    return values.expand(2, -1).sum(-1)[:1] if len(values) == 1 else values.sum(-1)


def lowest_argmax(logits: Tensor) -> Tensor:
    """Index of the largest logit of each row, ties to the lowest index: [N, V] → [N]."""
    return logits.argmax(-1)  # documented to give the first of equal maxima


def target_distribution(logits: Tensor, sampling: Sampling) -> Tensor:
    """Return p [N, V] from logits [N, V], with transformers' warpers: temperature, top-k (ties
    included), top-p, min-p, typical-p. Temperature 0 is one-hot p, at the lowest of equal maxima.
    The largest logit is subtracted first, so that no temperature overflows."""
    if sampling.temperature == 0:
        return torch.zeros_like(logits).scatter_(-1, lowest_argmax(logits)[:, None], 1.0)
    logits = (logits - logits.amax(-1, keepdim=True)).div_(sampling.temperature)
    if 0 < sampling.top_k < logits.shape[-1]:
        least = logits.topk(sampling.top_k).values[:, -1:]
        logits = logits.masked_fill(logits < least, -torch.inf)
    if sampling.top_p < 1:
        ordered, ids = logits.sort(-1)
        dropped = ordered.softmax(-1).cumsum(-1) <= 1 - sampling.top_p
        dropped[:, -1].fill_(False)
        logits = logits.masked_fill(
            torch.zeros_like(dropped).scatter_(-1, ids, dropped), -torch.inf
        )
    if (least_share := sampling.processors.min_p) > 0:
        p = logits.softmax(-1)
        logits = logits.masked_fill(p < least_share * p.amax(-1, keepdim=True), -torch.inf)
    if (mass := sampling.processors.typical_p) < 1:
        logarithms = logits.log_softmax(-1)
        p = logarithms.exp()
        terms = (p * logarithms).nan_to_num(0.0)
        distance = (logarithms - row_sums(terms)[:, None]).abs()  # of −ln p from the entropy
        ordered, ids = distance.sort(-1)
        last = (p.gather(-1, ids).cumsum(-1)[:, :-1] < mass).sum(-1, keepdim=True)
        logits = logits.masked_fill(distance > ordered.gather(-1, last), -torch.inf)
    return logits.softmax(-1)


def displayed_distribution(logits: Tensor, p: Tensor, sampling: Sampling) -> Tensor:
    """Return the distribution displayed beside a token, [N, V]: p itself; at temperature 0, where p
    is one-hot, softmax(z)."""
    return logits.softmax(-1) if sampling.temperature == 0 else p


class Draws(NamedTuple):
    """Tokens drawn from distributions."""

    ids: Tensor  # [N]
    race: Tensor  # [N, V] p/E; the largest wins

    def gap(self) -> Tensor:
        """ln of the largest p/E over the second largest, [N]: the difference of the two best of ln
        p + Gumbel noise. Infinite where p has one token only."""
        best = self.race.topk(min(2, self.race.shape[-1])).values
        return (
            best[:, 0].log() - best[:, 1].log()
            if best.shape[-1] > 1
            else torch.full_like(best[:, 0], torch.inf)
        )


def draw(distribution: Tensor, noise: Tensor) -> Draws:
    """Draw the token of each row with the largest p/E, that is, with the largest ln p + Gumbel
    noise: it has distribution p. Ties go to the lowest id; an id of probability 0 is never drawn.
    distribution [N, V], noise [N, ≥ V]."""
    race = distribution / noise[:, : distribution.shape[-1]]
    return Draws(lowest_argmax(race), race)


def residual(p: Tensor, q: Tensor) -> Tensor:
    """Return norm((p − q)₊) row by row, [N, V]; p itself where the residual is zero (p = q)."""
    rest = (p - q).clamp(min=0)
    mass = rest.sum(-1, keepdim=True)
    return torch.where(mass > 0, rest / mass.clamp(min=torch.finfo(rest.dtype).tiny), p)
