"""Speed-up and cost of every setting of a sweep, and the Pareto-optimal settings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from evaluation.report.values import Interval as Interval
from evaluation.statistics import over, quartiles, wilson
from evaluation.study.pairs import Paired
from evaluation.study.plan import Plan
from evaluation.study.sweep import Cell, cells


class Cost(StrEnum):
    """Costs of a faster text; lower is better."""

    DIFFER = "differ"  # share of texts that differ from strict's
    TV = "tv"  # mean total variation per token
    SCORE_LOSS = "score_loss"  # share of right answers under strict − under the rule


LEAST_PAIRS = 5  # of a setting, else the noise of its times decides what is fastest


@dataclass(frozen=True, slots=True)
class Point:
    """One setting over all its pairs; undefined numbers are nan."""

    cell: Cell
    n: int  # pairs
    speedup: Interval  # median of the paired ratios of tokens/s, and their quartiles
    tokens_per_s: float  # median
    strict_tokens_per_s: float
    tau: float  # all new tokens / all steps
    strict_tau: float
    tau_ratio: float
    differ: Interval  # share of pairs whose texts differ in any token; Wilson
    divergence: float  # median first differing position, over those that differ
    relaxed_share: float  # relaxed / new tokens
    tv: float  # mean total variation per token
    length_ratio: float  # all new tokens, the rule's over strict's
    scored: int  # pairs with a reference
    score: Interval  # share right; Wilson
    strict_score: Interval

    @property
    def score_loss(self) -> float:
        """Share right under strict − under the rule: negative if the rule is better."""
        return self.strict_score.value - self.score.value

    def cost(self, cost: Cost) -> float:
        """The value of a cost; nan if it was not measured."""
        return {Cost.DIFFER: self.differ.value, Cost.TV: self.tv, Cost.SCORE_LOSS: self.score_loss}[cost]


def points(plan: Plan, pairs: Sequence[Paired]) -> tuple[Point, ...]:
    """Every setting of the plan in its order, including those without measurements."""
    by_cell: dict[Cell, list[Paired]] = {cell: [] for cell in cells(plan)}
    for pair in pairs:
        by_cell[pair.cell].append(pair)
    return tuple(_point(cell, found) for cell, found in by_cell.items())


def optimal(points: Sequence[Point], cost: Cost) -> tuple[int, ...]:
    """Indices of the Pareto front of speed-up and cost, by rising cost, of the points with at least LEAST_PAIRS pairs."""
    measured = [point.cost(cost) if point.n >= LEAST_PAIRS else math.nan for point in points]
    return front([(price, point.speedup.value) for price, point in zip(measured, points, strict=True)])


def front(options: Sequence[tuple[float, float]]) -> tuple[int, ...]:
    """Indices of the Pareto-optimal options by rising cost; an option is (cost, gain): less cost and more gain are better.

    One option beats another that costs no less and gains no more, unless both are equal. Options with a nan are ignored.
    """
    known = [index for index, option in enumerate(options) if not any(map(math.isnan, option))]
    found: list[int] = []
    for index in sorted(known, key=lambda index: (options[index][0], -options[index][1])):
        if not found or options[index][1] > options[found[-1]][1] or options[index] == options[found[-1]]:
            found.append(index)
    return tuple(found)


def _point(cell: Cell, pairs: Sequence[Paired]) -> Point:
    tokens, strict_tokens = _total(pairs, "tokens"), _total(pairs, "strict_tokens")
    tau, strict_tau = over(tokens, _total(pairs, "steps")), over(strict_tokens, _total(pairs, "strict_steps"))
    parted = [pair.divergence for pair in pairs if pair.divergence is not None]
    low, speedup, high = quartiles([pair.speedup for pair in pairs if not math.isnan(pair.speedup)])
    scored = [pair for pair in pairs if pair.right is not None]
    return Point(
        cell=cell,
        n=len(pairs),
        speedup=Interval(speedup, low, high),
        tokens_per_s=quartiles([pair.tokens_per_s for pair in pairs])[1],
        strict_tokens_per_s=quartiles([pair.strict_tokens_per_s for pair in pairs])[1],
        tau=tau,
        strict_tau=strict_tau,
        tau_ratio=over(tau, strict_tau),
        differ=_share(len(parted), len(pairs)),
        divergence=quartiles(parted)[1],
        relaxed_share=over(_total(pairs, "relaxed"), tokens),
        tv=over(_total(pairs, "tv_sum"), tokens),
        length_ratio=over(tokens, strict_tokens),
        scored=len(scored),
        score=_share(sum(bool(pair.right) for pair in scored), len(scored)),
        strict_score=_share(sum(bool(pair.strict_right) for pair in scored), len(scored)),
    )


def _total(pairs: Sequence[Paired], name: str) -> float:
    return math.fsum(getattr(pair, name) for pair in pairs)


def _share(part: int, whole: int) -> Interval:
    return Interval(over(part, whole), *wilson(part, whole))
