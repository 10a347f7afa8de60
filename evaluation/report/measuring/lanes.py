"""Measures the lanes of one group at one temperature; docs/reference/statistics.md defines each
number.

Every number of a lane is a function of sums over its runs, so the same function computes the value
and its bootstrap interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
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
    what is summed, each [R]."""

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
    prompts: int  # N
    scores: Mapping[str, Array]  # by metric, the main one first, [R, L]

    def number(self, name: str, lane: int) -> Array:
        """Return a field of ``Result`` or ``Relative``, [R]."""
        numbers: Array = self.grid.numbers[name][self.rows, lane]
        return numbers

    def used(self, lane: int) -> Mask:
        """Runs that were completed in the lane, its baseline and ``none``, [R]."""
        completed = self.grid.completed[self.rows][:, self.grid.compared(lane)]
        mask: Mask = np.logical_and.reduce(completed, axis=1)
        return mask

    def scored(self, metric: str, lane: int) -> Mask:
        """Used runs that have a score in these lanes, [R]."""
        known = np.isfinite(self.scores[metric][:, self.grid.compared(lane)])
        mask: Mask = self.used(lane) & np.logical_and.reduce(known, axis=1)
        return mask

    def quantity(self, name: str, lane: int) -> Array:
        """Return a field, [R]; 1 without a name."""
        return self.number(name, lane) if name else np.ones(len(self.rows))

    def lanes(self, lane: int, over: Other) -> tuple[int, ...]:
        """Return the lane and the one that it is compared with; none where the plan has no such
        lane."""
        other = self.grid.baseline(lane) if over == "strict" else self.grid.plan.none
        return (lane,) if not over else () if other is None else (lane, other)


def sample_of(grid: Grid, group: Group, temperature: float) -> GroupSample:
    """Return the tasks of the group at that temperature."""
    rows = np.flatnonzero(group.items[grid.item] & (grid.temperature == temperature))
    items, prompt = np.unique(grid.item[rows], return_inverse=True)
    return GroupSample(grid, rows, prompt.astype(np.intp), len(items), _scores(grid, rows))


def measured(grid: Grid, group: Group, temperature: float) -> tuple[Measured, ...]:
    """Measure every lane of the plan, in its order."""
    sample = sample_of(grid, group, temperature)
    estimates = {
        (lane, name): estimate
        for lane in range(len(grid.plan.lanes))
        for name, estimate in _estimates(sample, lane).items()
    }
    columns = [column for estimate in estimates.values() for column in estimate.columns]
    totals = totals_by_prompt(np.stack(columns, axis=1), sample.prompt).T  # first of all runs
    by_lane: list[dict[str, Array]] = [{} for _ in grid.plan.lanes]
    start = 0
    with np.errstate(divide="ignore", invalid="ignore"):
        for (lane, name), estimate in estimates.items():
            end = start + len(estimate.columns)
            by_lane[lane][name] = estimate.value(*totals[start:end])
            start = end
    return tuple(
        _lane(sample, group, temperature, lane, values) for lane, values in enumerate(by_lane)
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


def _estimates(sample: GroupSample, lane: int) -> dict[str, Estimate]:
    """Estimate every metric of a lane that has a bootstrap interval, and its scores."""
    estimates = {}
    for name, metric in METRICS.items():
        average = metric.average
        if isinstance(average, Pooled) and (lanes := sample.lanes(lane, average.over)):
            estimates[name] = _pooled(sample, lanes, average)
        elif isinstance(average, Mean) and (lanes := sample.lanes(lane, average.over)):
            estimates[name] = _mean(sample, lanes, average)
    for score, scores in sample.scores.items():
        scored = sample.scored(score, lane)
        both = lane, sample.grid.baseline(lane)
        rule, baseline = (np.where(scored, scores[:, each], 0.0) for each in both)
        runs = scored.astype(np.float64)
        estimates |= {
            f"{score}:value": Estimate((rule, runs)),
            f"{score}:baseline": Estimate((baseline, runs)),
            f"{score}:recovery": Estimate((rule, baseline)),
            f"{score}:difference": Estimate((rule - baseline, runs)),
        }
    return estimates


def _pooled(sample: GroupSample, lanes: Sequence[int], average: Pooled) -> Estimate:
    """``lanes``: the lane itself first."""
    used = sample.used(lanes[0])
    if average.known:
        for each in (*lanes, sample.grid.baseline(lanes[0])):
            for name in (average.top, average.bottom):
                used = used & np.isfinite(sample.quantity(name, each))
    columns = (
        np.where(used, sample.quantity(name, each), 0.0)
        for each in lanes
        for name in (average.top, average.bottom)
    )
    return Estimate(tuple(columns), average.minus)


def _mean(sample: GroupSample, lanes: Sequence[int], average: Mean) -> Estimate:
    used = sample.used(lanes[0])
    if np.isposinf(sample.quantity(average.top, lanes[0])[used]).any():
        return Estimate((used.astype(np.float64), np.zeros(len(used))))  # ∞, without an interval
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio, *other = (
            sample.quantity(average.top, each) / sample.quantity(average.bottom, each)
            for each in lanes
        )
        values = ratio / other[0] if other else ratio
    counted = used & np.isfinite(values)
    return Estimate((np.where(counted, values, 0.0), counted.astype(np.float64)))


def _lane(
    sample: GroupSample, group: Group, temperature: float, lane: int, resampled: Mapping[str, Array]
) -> Measured:
    """``resampled``: values by name, [1 + B], first of all runs."""
    grid, used = sample.grid, sample.used(lane)
    prompts = len(np.unique(sample.prompt[used]))
    intervals = percentile_intervals(resampled.values(), prompts)
    spread = dict(zip(resampled, intervals, strict=True))
    for name, metric in METRICS.items():
        if isinstance(metric.average, ShareOfRuns):
            values = sample.number(metric.average.field, lane)
            spread[name] = share_interval(values[used], sample.prompt[used])
        elif isinstance(metric.average, Quartiles):
            spread[name] = quartiles(sample.number(metric.average.field, lane)[used])
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
    scored = sample.scored(metric, lane)
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
        recovery_bootstrap=spread[f"{metric}:recovery"],
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
    every = sample.scored(metric, lane) & np.isfinite(random)
    if not sample.number("relaxed", lane)[every].any():
        return None
    pairs = paired(
        random[every],
        scores[every, lane],
        sample.prompt[every],
        binary=binary and bool(np.isin(random[every], (0.0, 1.0)).all()),
    )
    test = placebo_test(pairs, sample.grid.plan.equivalence)
    return replace(test, ratio=possible(test.ratio, scores[every, lane]))
