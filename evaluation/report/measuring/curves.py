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
from evaluation.report.measuring.grid import Grid, Mask, Part
from evaluation.report.measuring.lanes import scores_of
from evaluation.report.rows import CurveRow, SharpenedRow
from evaluation.statistics import Array, percentile_intervals

PLACES = 4  # of the common range of two curves at which they are compared


class _Lanes(NamedTuple):
    """Lanes over the runs that all of them completed: totals over all runs and over every resample
    of prompts, [1 + B, lanes]."""

    prompts: int
    tau: Array
    log_likelihood: Array  # a token
    score: Array


def sharpened_rows(part: Part) -> Iterator[SharpenedRow]:
    """Yield every rule beside strict at the temperature at which its texts are as likely."""
    group, temperature, grid = part
    plan = grid.plan
    for drafter in dict.fromkeys(lane.drafter for lane in plan.lanes):
        here = [number for number, lane in enumerate(plan.lanes) if lane.drafter == drafter]
        curve = [number for number in here if plan.lanes[number].rule.name in (BASELINE, SHARPENED)]
        rules = [number for number in here if plan.lanes[number].relaxes]
        if len(curve) < 2 or not rules or not (every := _measured(grid, [*curve, *rules])):
            continue
        likely, scores = (each[:, : len(curve)] for each in (every.log_likelihood, every.score))
        own = [plan.lanes[lane].scale for lane in curve]
        scales, strict = np.broadcast_to(own, likely.shape), scores[:, own.index(1)]
        for column, lane in enumerate(rules, start=len(curve)):
            place, score = every.log_likelihood[:, column], every.score[:, column]
            scale, alone = (_on_curve(place, likely, each) for each in (scales, scores))
            with np.errstate(divide="ignore", invalid="ignore"):
                values = place, scale, score / strict, alone / strict, score - alone
            intervals = percentile_intervals(values, every.prompts)
            yield SharpenedRow(lane, temperature, group, every.prompts, *intervals)


def curve_rows(part: Part) -> Iterator[CurveRow]:
    """Yield every two rules of at least two settings each with the same drafter, at the same τ: at
    places that divide the range which both reach."""
    families = defaultdict[str, dict[str, list[int]]](lambda: defaultdict(list))
    for number, lane in enumerate(part.grid.plan.lanes):
        if lane.relaxes:
            families[lane.drafts][lane.rule.name].append(number)
    for rules in families.values():
        several = [lanes for lanes in rules.values() if len(lanes) > 1]
        for one, other in combinations(several, 2):
            yield from _compared(part, one, other)


def _compared(part: Part, one: Sequence[int], other: Sequence[int]) -> Iterator[CurveRow]:
    group, temperature, grid = part
    plan = grid.plan
    baseline = plan.baseline(one[0])
    start = [] if baseline is None else [baseline]
    if not (every := _measured(grid, [*start, *one, *other])):
        return
    ends = len(start) + len(one), len(start) + len(one) + len(other)
    first, second = [*range(ends[0])], [*range(len(start)), *range(*ends)]
    ranges = [every.tau[0, curve] for curve in (first, second)]
    low, high = max(map(min, ranges)), min(map(max, ranges))
    for tau in np.linspace(low, high, PLACES + 1)[1:] if low < high else ():
        places = np.full(len(every.tau), tau)
        scores = [
            _on_curve(places, every.tau[:, curve], every.score[:, curve])
            for curve in (first, second)
        ]
        samples = *scores, scores[0] - scores[1]
        rules = plan.lanes[one[0]].rule.name, plan.lanes[other[0]].rule.name
        intervals = percentile_intervals(samples, every.prompts)
        place = one[0], temperature, group, *rules, every.prompts, float(tau)
        yield CurveRow(*place, *intervals)


def _measured(grid: Grid, lanes: Sequence[int]) -> _Lanes | None:
    """Return what is measured; None without a score."""
    scores = next(iter(scores_of(grid).values()), None)
    if scores is None:
        return None
    numbers = map(grid.number, ("new_tokens", "steps", "log_likelihood", ""))
    columns = [each[:, lanes] for each in (*numbers, scores)]
    used: Mask = np.all(grid.used[:, lanes] & np.isfinite(columns).all(axis=0), axis=1)
    if not used.any():
        return None
    part = grid.part(used)
    tokens, steps, likely, runs, score = part.totals(*(each[used] for each in columns))
    return _Lanes(part.prompts, tokens / steps, likely / tokens, score / runs)


def _on_curve(places: Array, along: Array, values: Array) -> Array:
    """Return the value of each resample's curve, [1 + B, points], at its place, [1 + B]; nan beyond
    the end that is larger, below the smaller one that of the end."""
    found = np.empty(len(places))
    for row, (place, points, heights) in enumerate(zip(places, along, values, strict=True)):
        order = np.argsort(points)
        found[row] = np.interp(place, points[order], heights[order], right=np.nan)
    return found
