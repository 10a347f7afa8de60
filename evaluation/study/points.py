"""Speed-up and cost of every setting of a sweep, the Pareto-optimal settings, and the CSV tables: a
row per setting, or per pair."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter
from typing import Any

from evaluation.report.values import Interval as Interval
from evaluation.statistics import count_interval, mean_ratio, over, paired_ratios, quartiles
from evaluation.study.pairs import Paired, Sweep
from evaluation.study.plan import Plan
from evaluation.study.sweep import Cell, case_of, cells, first_lane, other_parameters
from mars_core.models import CATALOG
from mars_core.types import ShiftKind


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
    speedup: Interval  # geometric mean of the paired ratios of tokens/s, Student's 95 % interval
    tokens_per_s: float  # median
    strict_tokens_per_s: float
    tau: float  # all new tokens / all steps
    strict_tau: float
    tau_ratio: float
    differ: Interval  # share of pairs whose texts differ in any token; Wilson
    divergence: float  # median first differing position, over those that differ
    relaxed_share: float  # relaxed / new tokens
    tv: float  # mean total variation per token
    tv_kind: ShiftKind
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
        return {Cost.DIFFER: self.differ.value, Cost.TV: self.tv, Cost.SCORE_LOSS: self.score_loss}[
            cost
        ]


def points(plan: Plan, pairs: Sequence[Paired]) -> tuple[Point, ...]:
    """Every setting of the plan in its order, including those without measurements."""
    by_cell: dict[Cell, list[Paired]] = {cell: [] for cell in cells(plan)}
    for pair in pairs:
        by_cell[pair.cell].append(pair)
    lane = first_lane(plan)
    kinds = {cell: lane.tv_kind(cell.temperature) for cell in by_cell}
    return tuple(_point(cell, kinds[cell], found) for cell, found in by_cell.items())


def optimal(points: Sequence[Point], cost: Cost) -> tuple[int, ...]:
    """Indices of the Pareto front of speed-up and cost, by rising cost, of the points with at least
    LEAST_PAIRS pairs."""
    measured = [point.cost(cost) if point.n >= LEAST_PAIRS else math.nan for point in points]
    return front(
        [(price, point.speedup.value) for price, point in zip(measured, points, strict=True)]
    )


def front(options: Sequence[tuple[float, float]]) -> tuple[int, ...]:
    """Indices of the Pareto-optimal options by rising cost; an option is (cost, gain): less cost
    and more gain are better.

    One option beats another that costs no less and gains no more, unless both are equal. Options
    with a nan are ignored.
    """
    known = [index for index, option in enumerate(options) if not any(map(math.isnan, option))]
    found: list[int] = []
    for index in sorted(known, key=lambda index: (options[index][0], -options[index][1])):
        if (
            not found
            or options[index][1] > options[found[-1]][1]
            or options[index] == options[found[-1]]
        ):
            found.append(index)
    return tuple(found)


def _point(cell: Cell, kind: ShiftKind, pairs: Sequence[Paired]) -> Point:
    tokens, strict_tokens = _total(pairs, "tokens"), _total(pairs, "strict_tokens")
    tau, strict_tau = (
        over(tokens, _total(pairs, "steps")),
        over(strict_tokens, _total(pairs, "strict_steps")),
    )
    parted = [pair.divergence for pair in pairs if pair.divergence is not None]
    speeds = paired_ratios(
        [pair.tokens_per_s for pair in pairs], [pair.strict_tokens_per_s for pair in pairs]
    )
    scored = [pair for pair in pairs if pair.right is not None]
    return Point(
        cell=cell,
        n=len(pairs),
        speedup=mean_ratio(speeds) if speeds else Interval(math.nan),
        tokens_per_s=quartiles([pair.tokens_per_s for pair in pairs])[1],
        strict_tokens_per_s=quartiles([pair.strict_tokens_per_s for pair in pairs])[1],
        tau=tau,
        strict_tau=strict_tau,
        tau_ratio=over(tau, strict_tau),
        differ=count_interval(len(parted), len(pairs)),
        divergence=quartiles(parted)[1],
        relaxed_share=over(_total(pairs, "relaxed"), tokens),
        tv=over(_total(pairs, "tv_sum"), tokens),
        tv_kind=kind,
        length_ratio=over(tokens, strict_tokens),
        scored=len(scored),
        score=count_interval(sum(bool(pair.right) for pair in scored), len(scored)),
        strict_score=count_interval(sum(bool(pair.strict_right) for pair in scored), len(scored)),
    )


def _total(pairs: Sequence[Paired], name: str) -> float:
    return math.fsum(getattr(pair, name) for pair in pairs)


_PLAN: dict[str, Callable[[Plan], Any]] = {
    "pair": lambda plan: next(
        (spec.title for spec in CATALOG if spec.key == plan.models.key), plan.models.key
    ),
    "rule": lambda plan: first_lane(plan).rule.name,
    "parameter": lambda plan: plan.varied,
    "other_parameters": lambda plan: ", ".join(
        f"{name}={value:g}" for name, value in other_parameters(plan).items()
    ),
    "drafter": lambda plan: first_lane(plan).drafter.kind,
    "draft_mode": lambda plan: first_lane(plan).drafter.mode.value,
    "tree_tokens": lambda plan: (tree := first_lane(plan).drafter.tree) and tree.tokens,
    "tree_depth": lambda plan: (tree := first_lane(plan).drafter.tree) and tree.depth,
    "tree_top_k": lambda plan: (tree := first_lane(plan).drafter.tree) and tree.top_k,
    "max_new_tokens": lambda plan: plan.max_new_tokens,
    "sampling_top_k": lambda plan: plan.top_k,
    "sampling_top_p": lambda plan: plan.top_p,
    "processors": lambda plan: ", ".join(
        f"{name}={value}" for name, value in plan.processors.chosen.items()
    ),
}
_POINT = {  # column → attribute of a Point
    "temperature": "cell.temperature",
    "k": "cell.k",
    "value": "cell.value",
    "comparisons": "n",
    "speedup": "speedup.value",
    "speedup_low95": "speedup.low",
    "speedup_high95": "speedup.high",
    "tokens_per_s_median": "tokens_per_s",
    "strict_tokens_per_s_median": "strict_tokens_per_s",
    "tau": "tau",
    "strict_tau": "strict_tau",
    "tau_ratio": "tau_ratio",
    "differ_share": "differ.value",
    "differ_low95": "differ.low",
    "differ_high95": "differ.high",
    "first_divergence_median": "divergence",
    "relaxed_share": "relaxed_share",
    "tv_mean": "tv",
    "tv_kind": "tv_kind",
    "length_ratio": "length_ratio",
    "scored": "scored",
    "score": "score.value",
    "score_low95": "score.low",
    "score_high95": "score.high",
    "strict_score": "strict_score.value",
    "strict_score_low95": "strict_score.low",
    "strict_score_high95": "strict_score.high",
    "score_loss": "score_loss",
}
_PAIR = (
    "comparison",
    "temperature",
    "k",
    "value",
    "repeat",
    "strict_tokens_per_s",
    "tokens_per_s",
    "speedup",
    "strict_tokens",
    "tokens",
    "strict_steps",
    "steps",
    "relaxed",
    "tv_sum",
    "divergence",
    "cause",
    "strict_right",
    "right",
)
POINT_HEADS = ("sweep", *_PLAN, *_POINT, *(f"pareto_{cost}" for cost in Cost))
PAIR_HEADS = ("sweep", "rule", "parameter", *_PAIR, "seed", "prompt", "reference")


def points_table(sweep: Sweep) -> Iterator[Sequence[Any]]:
    """Header, and one row per setting, in the order of the table on the page."""
    found, read = points(sweep.plan, sweep.pairs), attrgetter(*_POINT.values())
    best = [frozenset(optimal(found, cost)) for cost in Cost]
    shared = [value(sweep.plan) for value in _PLAN.values()]
    yield POINT_HEADS
    for index, point in enumerate(found):
        yield [sweep.id, *shared, *read(point), *(index in chosen for chosen in best)]


def pairs_table(sweep: Sweep) -> Iterator[Sequence[Any]]:
    """Header, and one row per pair, in the order of ``sweep.pairs``."""
    plan, rule = sweep.plan, first_lane(sweep.plan).rule.name
    yield PAIR_HEADS
    for pair in sweep.pairs:
        numbers, case = (getattr(pair, name) for name in _PAIR), case_of(plan, pair.case)
        yield [sweep.id, rule, plan.varied, *numbers, pair.seed(plan), case.prompt, case.reference]
