"""Scores along a curve, joined by straight lines: of strict at lower temperatures over the
log-likelihood of the texts, and of the settings of a rule over τ.

Every resample of prompts has curves of its own, so that the intervals have the error of the curve
and that of the place on it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from evaluation.plan.lane import BASELINE, SHARPENED
from evaluation.plan.plan import Plan
from evaluation.report.measuring.grid import Grid, Group
from evaluation.report.measuring.lanes import GroupSample, sample_of
from evaluation.report.rows import CurveRow, SharpenedRow
from evaluation.statistics import Array, percentile_intervals, totals_by_prompt

PLACES = 4  # of the common range of two curves at which they are compared


class _Lanes(NamedTuple):
    """Lanes over the runs that all of them completed: totals over all runs and over every resample
    of prompts, [1 + B, lanes]."""

    lanes: Sequence[int]
    prompts: int
    tau: Array
    log_likelihood: Array  # a token
    score: Array

    def at(self, lane: int) -> int:
        return self.lanes.index(lane)


def sharpened_rows(grid: Grid, group: Group, temperature: float) -> Iterator[SharpenedRow]:
    """Yield every rule beside strict at the temperature at which its texts are as likely."""
    plan, sample = grid.plan, sample_of(grid, group, temperature)
    for drafter in dict.fromkeys(lane.drafter for lane in plan.lanes):
        here = [number for number, lane in enumerate(plan.lanes) if lane.drafter == drafter]
        curve = [number for number in here if plan.lanes[number].rule.name in (BASELINE, SHARPENED)]
        rules = [number for number in here if plan.lanes[number].relaxes]
        if len(curve) < 2 or not rules or not (every := _measured(sample, [*curve, *rules])):
            continue
        columns = [every.at(lane) for lane in curve]
        likely, scores = every.log_likelihood[:, columns], every.score[:, columns]
        scales = np.broadcast_to([plan.lanes[lane].scale for lane in curve], likely.shape)
        strict = every.score[
            :, every.at(next(lane for lane in curve if plan.lanes[lane].scale == 1))
        ]
        for lane in rules:
            own, score = (each[:, every.at(lane)] for each in (every.log_likelihood, every.score))
            alone = _on_curve(own, likely, scores)
            with np.errstate(divide="ignore", invalid="ignore"):
                values = (
                    own,
                    _on_curve(own, likely, scales),
                    score / strict,
                    alone / strict,
                    score - alone,
                )
            intervals = percentile_intervals(values, every.prompts)
            yield SharpenedRow(lane, temperature, group.name, every.prompts, *intervals)


def curve_rows(grid: Grid, group: Group, temperature: float) -> Iterator[CurveRow]:
    """Yield every two rules of at least two settings each with the same drafter, at the same τ: at
    places that divide the range which both reach."""
    plan, sample = grid.plan, sample_of(grid, group, temperature)
    families = defaultdict[str, dict[str, list[int]]](lambda: defaultdict(list))
    for number, lane in enumerate(plan.lanes):
        if lane.relaxes:
            families[lane.drafts][lane.rule.name].append(number)
    for rules in families.values():
        chosen = {name: lanes for name, lanes in rules.items() if len(lanes) > 1}
        for one, other in combinations(chosen, 2):
            yield from _compared(plan, sample, group, temperature, chosen[one], chosen[other])


def _compared(
    plan: Plan,
    sample: GroupSample,
    group: Group,
    temperature: float,
    one: Sequence[int],
    other: Sequence[int],
) -> Iterator[CurveRow]:
    baseline = plan.baseline(one[0])
    start = [] if baseline is None else [baseline]
    if not (every := _measured(sample, [*start, *one, *other])):
        return
    curves = [[every.at(lane) for lane in (*start, *lanes)] for lanes in (one, other)]
    ranges = [every.tau[0, curve] for curve in curves]
    low, high = max(map(min, ranges)), min(map(max, ranges))
    for tau in np.linspace(low, high, PLACES + 1)[1:] if low < high else ():
        places = np.full(len(every.tau), tau)
        scores = [_on_curve(places, every.tau[:, curve], every.score[:, curve]) for curve in curves]
        samples = *scores, scores[0] - scores[1]
        score, beside, difference = percentile_intervals(samples, every.prompts)
        yield CurveRow(
            group=group.name,
            temperature=temperature,
            lane=one[0],
            rule=plan.lanes[one[0]].rule.name,
            other=plan.lanes[other[0]].rule.name,
            prompts=every.prompts,
            tau=float(tau),
            score=score,
            other_score=beside,
            difference=difference,
        )


def _measured(sample: GroupSample, lanes: Sequence[int]) -> _Lanes | None:
    """Return what is measured; None without a score."""
    metric = next(iter(sample.scores), None)
    if metric is None:
        return None
    names = ("new_tokens", "steps", "log_likelihood")
    columns = [
        np.stack([*(sample.number(name, lane) for name in names), sample.scores[metric][:, lane]])
        for lane in lanes
    ]
    used = np.logical_and.reduce([sample.used(lane) for lane in lanes])
    used &= np.isfinite(columns).all(axis=(0, 1))
    prompts, prompt = np.unique(sample.prompt[used], return_inverse=True)
    if not len(prompts):
        return None
    flat = np.concatenate([*(each[:, used] for each in columns), np.ones((1, int(used.sum())))])
    totals = totals_by_prompt(flat.T, prompt.astype(np.intp))
    tokens, steps, likely, score = (totals[:, at:-1:4] for at in range(4))
    return _Lanes(lanes, len(prompts), tokens / steps, likely / tokens, score / totals[:, -1:])


def _on_curve(places: Array, along: Array, values: Array) -> Array:
    """Return the value of each resample's curve, [1 + B, points], at its place, [1 + B]; nan beyond
    the end that is larger, below the smaller one that of the end."""
    found = np.empty(len(places))
    for row, (place, points, heights) in enumerate(zip(places, along, values, strict=True)):
        order = np.argsort(points)
        found[row] = np.interp(place, points[order], heights[order], right=np.nan)
    return found
