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
from evaluation.report.measuring.grid import Grid, Group, Mask
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
    totals_by_prompt,
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


class GroupSample(NamedTuple):
    """One group at one temperature: R done tasks of N prompts."""

    grid: Grid
    rows: Indices  # of the grid, [R]
    prompt: Indices  # of each row, 0 to N − 1 in the order of the plan, [R]
    used: Mask  # runs that were completed in the lane, its baseline and ``none``, [R, L]
    scores: Mapping[str, Array]  # by metric, the main one first, [R, L]

    def number(self, name: str) -> Array:
        """Return a field of ``Result`` or ``Relative``, [R, L]; 1 without a name."""
        return self.grid.numbers[name][self.rows] if name else np.ones(self.used.shape)

    def scored(self, metric: str) -> Mask:
        """Used runs that have a score in these lanes, [R, L]."""
        return self.used & self.grid.in_compared(np.isfinite(self.scores[metric]))

    def lanes(self, over: Other) -> list[int] | None:
        """Return the lane that each is compared with; None where the plan has no such lane."""
        every, none = range(len(self.grid.plan.lanes)), self.grid.plan.none
        if over == "none":
            return None if none is None else [none for _ in every]
        return [self.grid.baseline(lane) if over else lane for lane in every]


def sample_of(grid: Grid, group: Group, temperature: float) -> GroupSample:
    """Return the tasks of the group at that temperature."""
    rows = np.flatnonzero(group.items[grid.item] & (grid.temperature == temperature))
    prompt = np.unique(grid.item[rows], return_inverse=True)[1].astype(np.intp)
    used = grid.in_compared(grid.completed[rows])
    return GroupSample(grid, rows, prompt, used, _scores(grid, rows))


def measured(grid: Grid, group: Group, temperature: float) -> tuple[Measured, ...]:
    """Measure every lane of the plan, in its order."""
    sample = sample_of(grid, group, temperature)
    estimates = dict(_estimates(sample))
    columns = [column for estimate in estimates.values() for column in estimate.columns]
    totals = totals_by_prompt(np.hstack(columns), sample.prompt)  # first of all runs
    sums = iter(np.split(totals, len(columns), axis=1))
    with np.errstate(divide="ignore", invalid="ignore"):
        resampled = {
            name: estimate.value(*islice(sums, len(estimate.columns)))
            for name, estimate in estimates.items()
        }
    return tuple(
        _lane(sample, group, temperature, lane, resampled) for lane in range(len(grid.plan.lanes))
    )


def _scores(grid: Grid, rows: Indices) -> dict[str, Array]:
    names = list(filter(None, dict.fromkeys(grid.main[row] for row in rows)))
    scores = {MAIN: grid.main_scores[rows]} if len(names) > 1 else {}
    others = (
        name
        for name in grid.scores
        if name not in names and np.isfinite(grid.scores[name][rows]).any()
    )
    return scores | {name: grid.scores[name][rows] for name in (*names, *others)}


def _estimates(sample: GroupSample) -> Iterator[tuple[str, Estimate]]:
    """Estimate every metric that has a bootstrap interval, and the scores."""
    for name, metric in METRICS.items():
        average = metric.average
        if isinstance(average, Pooled) and (other := sample.lanes(average.over)):
            yield name, _pooled(sample, average, other)
        elif isinstance(average, Mean) and (other := sample.lanes(average.over)):
            yield name, _mean(sample, average, other)
    baselines = sample.lanes("strict")
    for score, scores in sample.scores.items():
        scored = sample.scored(score)
        rule, baseline = (np.where(scored, each, 0.0) for each in (scores, scores[:, baselines]))
        runs = scored.astype(np.float64)
        yield f"{score}:value", Estimate((rule, runs))
        yield f"{score}:baseline", Estimate((baseline, runs))
        yield f"{score}:difference", Estimate((rule - baseline, runs))


def _pooled(sample: GroupSample, average: Pooled, other: Sequence[int]) -> Estimate:
    """``other``: the lane that each is compared with."""
    both, used = [sample.number(average.top), sample.number(average.bottom)], sample.used
    if average.known:
        known = np.logical_and(*map(np.isfinite, both))
        used = used & known & known[:, other] & known[:, sample.lanes("strict")]
    columns = [*both, *((each[:, other] for each in both) if average.over else ())]
    return Estimate(tuple(np.where(used, each, 0.0) for each in columns), average.minus)


def _mean(sample: GroupSample, average: Mean, other: Sequence[int]) -> Estimate:
    top, used = sample.number(average.top), sample.used
    with np.errstate(divide="ignore", invalid="ignore"):
        values = top / sample.number(average.bottom)
        values = values / values[:, other] if average.over else values
    counted = used & np.isfinite(values)
    infinite = (used & np.isposinf(top)).any(axis=0)  # ∞, without an interval
    sums = np.where(infinite, used, np.where(counted, values, 0.0))
    return Estimate((sums, np.where(infinite, 0.0, counted)))


def _lane(
    sample: GroupSample, group: Group, temperature: float, lane: int, resampled: Mapping[str, Array]
) -> Measured:
    """``resampled``: values by name, [1 + B, L], first of all runs."""
    grid, used = sample.grid, sample.used[:, lane]
    prompts = len(np.unique(sample.prompt[used]))
    intervals = percentile_intervals((each[:, lane] for each in resampled.values()), prompts)
    spread = dict(zip(resampled, intervals, strict=True))
    for name, metric in METRICS.items():
        if isinstance(metric.average, ShareOfRuns):
            values = sample.number(metric.average.field)[used, lane]
            spread[name] = share_interval(values, sample.prompt[used])
        elif isinstance(metric.average, Quartiles):
            spread[name] = quartiles(sample.number(metric.average.field)[used, lane])
    drafted_at, kept_at = (
        counts[sample.rows[used], lane].sum(axis=0) for counts in (grid.drafted_at, grid.kept_at)
    )
    return Measured(
        group=group.name,
        temperature=temperature,
        lane=lane,
        prompts=prompts,
        seeds=len({grid.tasks[row].repeat for row in sample.rows[used]}),
        runs=int(used.sum()),
        failed=int(grid.failed[sample.rows, lane].sum()),
        acceptance_by_position=tuple(
            float(accepted / tried)
            for accepted, tried in zip(kept_at, drafted_at, strict=True)
            if tried
        ),
        scores={metric: _score(sample, lane, metric, spread) for metric in sample.scores},
        **{name: spread.get(name, BLANK) for name in METRICS},
    )


def _score(sample: GroupSample, lane: int, metric: str, spread: Mapping[str, Interval]) -> Score:
    """Score one lane by one metric: means, recovery, difference, tests and the verdict. ``spread``:
    numbers with bootstrap intervals."""
    plan, baseline = sample.grid.plan, sample.grid.baseline(lane)
    scored = sample.scored(metric)[:, lane]
    values, prompt = sample.scores[metric][scored], sample.prompt[scored]
    # "main" is binary where all its scores are, and so are metrics of a later version
    every = sample.scores[metric][np.isfinite(sample.scores[metric])]
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

    recovery = recovered(baseline, prompt)
    recovery_none = BLANK if plan.none is None else recovered(plan.none, prompt)
    template = sample.grid.template[sample.rows[scored]]
    several = len(np.unique(template)) < len(np.unique(prompt))
    compared = lane != baseline and not plan.lanes[lane].is_control
    tested = binary and compared
    change = (values[:, lane] - values[:, baseline]).round().astype(np.int64) if tested else None
    return Score(
        metric=metric,
        binary=binary,
        scored=int(scored.sum()),
        value=mean("value", lane),
        baseline=mean("baseline", baseline),
        recovery=recovery,
        recovery_none=recovery_none,
        recovery_template=recovered(baseline, template) if several else BLANK,
        difference=spread[f"{metric}:difference"],
        mcnemar=None if change is None else mcnemar(change, prompt),
        placebos={
            kind: test
            for kind, ranked in PLACEBOS.items()
            if (test := _placebo(sample, lane, metric, binary, ranked=ranked))
        },
        verdict=verdict(recovery, len(np.unique(prompt)), plan.margin)
        if compared and lane != plan.none
        else None,
    )


def _placebo(
    sample: GroupSample, lane: int, metric: str, binary: bool, *, ranked: bool
) -> PlaceboTest | None:
    """Compare the mean score of the lanes that imitate this one against its own, on the runs that
    all have; before Holm's correction. None where it relaxed nothing."""
    placebos, scores = sample.grid.plan.placebos(lane, ranked=ranked), sample.scores[metric]
    random = scores[:, placebos].mean(axis=1) if placebos else np.full(len(scores), np.nan)
    every = sample.scored(metric)[:, lane] & np.isfinite(random)
    if not sample.number("relaxed")[every, lane].any():
        return None
    pairs = paired(
        random[every],
        scores[every, lane],
        sample.prompt[every],
        binary=binary and bool(np.isin(random[every], (0.0, 1.0)).all()),
    )
    test = placebo_test(pairs, sample.grid.plan.equivalence)
    return replace(test, ratio=possible(test.ratio, scores[every, lane]))
