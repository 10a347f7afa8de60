"""Measures the lanes of one group at one temperature; docs/reference/statistics.md defines each
number.

Every number of a lane is a function of sums over its runs, so the same function computes the value
and its bootstrap interval.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

import numpy as np

from evaluation.recovery import PlaceboTest, paired, placebo_test, possible, ratio_interval, verdict
from evaluation.report.measured import BLANK, METRICS, PLACEBOS, Measured, Score
from evaluation.report.measuring.grid import Grid, Mask, Part
from evaluation.report.metrics import Mean, Other, Pooled, Quartiles, ShareOfRuns
from evaluation.scoring.metrics import METRICS as SCORINGS
from evaluation.statistics import (
    Array,
    Indices,
    Interval,
    mcnemar,
    percentile_intervals,
    quartiles,
    share_interval,
)

MAIN = "main"  # every item by its main metric, if these differ
ITSELF = Interval(1.0, 1.0, 1.0)  # recovery of a baseline that scored


class Estimate(NamedTuple):
    """A ratio of sums over runs; over a second one, or minus that, if there are four. ``columns``:
    what is summed, each [R, L]."""

    columns: tuple[Array, ...]
    minus: bool = False

    def value(self, top: Array, bottom: Array, *other: Array) -> Array:
        """Return the value of the sums, of any shape."""
        ratio = top / bottom
        if not other:
            return ratio
        reference = other[0] / other[1]
        return ratio - reference if self.minus else ratio / reference


def measured(part: Part) -> tuple[Measured, ...]:
    """Measure every lane of the plan, in its order."""
    grid, scores = part.grid, scores_of(part.grid)
    estimates = dict(_estimates(grid, scores))
    sums = iter(grid.totals(*(column for each in estimates.values() for column in each.columns)))
    with np.errstate(divide="ignore", invalid="ignore"):
        resampled = {  # first of all runs
            name: estimate.value(*islice(sums, len(estimate.columns)))
            for name, estimate in estimates.items()
        }
    lanes = range(len(grid.plan.lanes))
    return tuple(_lane(part, lane, scores, resampled) for lane in lanes)


def scores_of(grid: Grid) -> dict[str, Array]:
    """Return the scores by metric, the main one first, [T, L]."""
    names = list(filter(None, dict.fromkeys(grid.main)))
    main = {MAIN: grid.main_scores} if len(names) > 1 else {}
    known = (name for name, each in grid.scores.items() if np.isfinite(each).any())
    return main | {name: grid.scores[name] for name in dict.fromkeys((*names, *known))}


def _scored(grid: Grid, scores: Array) -> Mask:
    """Return the used runs that have a score in the compared lanes too, [T, L]."""
    return grid.used & grid.in_compared(np.isfinite(scores))


def _compared_with(grid: Grid, over: Other) -> list[int] | None:
    """Return the lane that each is compared with; None where the plan has no such lane."""
    every, none = range(len(grid.plan.lanes)), grid.plan.none
    if over == "none":
        return None if none is None else [none for _ in every]
    return grid.baselines if over else [*every]


def _estimates(grid: Grid, scores: Mapping[str, Array]) -> Iterator[tuple[str, Estimate]]:
    """Estimate every metric that has a bootstrap interval, and the scores."""
    for name, metric in METRICS.items():
        average = metric.average
        if isinstance(average, Pooled) and (other := _compared_with(grid, average.over)):
            yield name, _pooled(grid, average, other)
        elif isinstance(average, Mean) and (other := _compared_with(grid, average.over)):
            yield name, _mean(grid, average, other)
    for name, every in scores.items():
        runs = _scored(grid, every).astype(np.float64)
        rule, baseline = (np.where(runs, each, 0.0) for each in (every, every[:, grid.baselines]))
        yield f"{name}:value", Estimate((rule, runs))
        yield f"{name}:baseline", Estimate((baseline, runs))
        yield f"{name}:difference", Estimate((rule - baseline, runs))


def _pooled(grid: Grid, average: Pooled, other: Sequence[int]) -> Estimate:
    """``other``: the lane that each is compared with."""
    both, used = [grid.number(average.top), grid.number(average.bottom)], grid.used
    if average.known:
        known = np.logical_and(*map(np.isfinite, both))
        used = used & known & known[:, other] & known[:, grid.baselines]
    columns = [*both, *((each[:, other] for each in both) if average.over else ())]
    return Estimate(tuple(np.where(used, each, 0.0) for each in columns), average.minus)


def _mean(grid: Grid, average: Mean, other: Sequence[int]) -> Estimate:
    top, used = grid.number(average.top), grid.used
    with np.errstate(divide="ignore", invalid="ignore"):
        values = top / grid.number(average.bottom)
        values = values / values[:, other] if average.over else values
    counted = used & np.isfinite(values)
    infinite = (used & np.isposinf(top)).any(axis=0)  # ∞, without an interval
    sums = np.where(infinite, used, np.where(counted, values, 0.0))
    return Estimate((sums, np.where(infinite, 0.0, counted)))


def _lane(
    part: Part, lane: int, scores: Mapping[str, Array], resampled: Mapping[str, Array]
) -> Measured:
    """``resampled``: values by name, [1 + B, L], first of all runs."""
    grid, used = part.grid, part.grid.used[:, lane]
    prompt = grid.item[used]
    prompts = len(np.unique(prompt))
    intervals = percentile_intervals((each[:, lane] for each in resampled.values()), prompts)
    spread = dict(zip(resampled, intervals, strict=True))
    for name, metric in METRICS.items():
        if isinstance(metric.average, ShareOfRuns):
            spread[name] = share_interval(grid.numbers[metric.average.field][used, lane], prompt)
        elif isinstance(metric.average, Quartiles):
            spread[name] = quartiles(grid.numbers[metric.average.field][used, lane])
    drafted_at, kept_at = (
        counts[used, lane].sum(axis=0).tolist() for counts in (grid.drafted_at, grid.kept_at)
    )
    return Measured(
        group=part.group,
        temperature=part.temperature,
        lane=lane,
        prompts=prompts,
        seeds=len(np.unique(grid.repeat[used])),
        runs=int(used.sum()),
        failed=int(grid.failed[:, lane].sum()),
        acceptance_by_position=tuple(
            kept / drafted for kept, drafted in zip(kept_at, drafted_at, strict=True) if drafted
        ),
        scores={
            metric: _score(grid, lane, metric, each, spread) for metric, each in scores.items()
        },
        **{name: spread.get(name, BLANK) for name in METRICS},
    )


def _score(
    grid: Grid, lane: int, metric: str, scores: Array, spread: Mapping[str, Interval]
) -> Score:
    """Score one lane by one metric: means, recovery, difference, tests and the verdict. ``spread``:
    numbers with bootstrap intervals."""
    plan, baseline, scored = grid.plan, grid.baseline(lane), _scored(grid, scores)[:, lane]
    values, prompt, template = scores[scored], grid.item[scored], grid.template[scored]
    # "main" is binary where all its scores are, and so are metrics of a later version
    every = scores[np.isfinite(scores)]
    binary = (
        SCORINGS[metric].binary if metric in SCORINGS else bool(np.isin(every, (0.0, 1.0)).all())
    ) and bool(np.isin(values[:, lane], (0.0, 1.0)).all())  # which means of draws are not

    def mean(name: str, other: int) -> Interval:
        return share_interval(values[:, other], prompt) if binary else spread[f"{metric}:{name}"]

    def recovered(other: int, cluster: Indices) -> Interval:
        if lane == other:
            return ITSELF if values[:, lane].any() else BLANK
        pairs = paired(values[:, lane], values[:, other], cluster, binary=binary)
        return possible(ratio_interval(pairs), values[:, other])

    recovery, prompts = recovered(baseline, prompt), len(np.unique(prompt))
    compared = lane != baseline and not plan.lanes[lane].is_control
    change = (values[:, lane] - values[:, baseline]).round().astype(np.int64)
    tests = ((kind, _placebo(grid, lane, scores, binary, kind)) for kind in PLACEBOS)
    return Score(
        metric=metric,
        binary=binary,
        scored=len(values),
        value=mean("value", lane),
        baseline=mean("baseline", baseline),
        recovery=recovery,
        recovery_none=BLANK if plan.none is None else recovered(plan.none, prompt),
        recovery_template=recovered(baseline, template)
        if len(np.unique(template)) < prompts
        else BLANK,
        difference=spread[f"{metric}:difference"],
        mcnemar=mcnemar(change, prompt) if binary and compared else None,
        placebos={kind: test for kind, test in tests if test},
        verdict=verdict(recovery, prompts, plan.margin) if compared and lane != plan.none else None,
    )


def _placebo(grid: Grid, lane: int, scores: Array, binary: bool, kind: str) -> PlaceboTest | None:
    """Compare the mean score of the lanes that imitate this one against its own, on the runs that
    all have; before Holm's correction. None where it relaxed nothing."""
    placebos = grid.plan.placebos(lane, ranked=PLACEBOS[kind])
    random = scores[:, placebos].mean(axis=1) if placebos else np.full(len(scores), np.nan)
    every = _scored(grid, scores)[:, lane] & np.isfinite(random)
    if not grid.numbers["relaxed"][every, lane].any():
        return None
    pairs = paired(
        random[every],
        scores[every, lane],
        grid.item[every],
        binary=binary and bool(np.isin(random[every], (0.0, 1.0)).all()),
    )
    test = placebo_test(pairs, grid.plan.equivalence)
    return replace(test, ratio=possible(test.ratio, scores[every, lane]))
