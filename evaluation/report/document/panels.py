"""The charts of a report: what is kept over the speed, and every quantity over the varied
parameter."""

from __future__ import annotations

import math
from collections.abc import Sequence

from display.format import plural
from display.names import parameter_title
from display.palette import NEUTRAL
from display.panels import (
    Look,
    Mark,
    MarkValue,
    Panel,
    at,
    dodge,
    panels_plot,
    reached,
    spanning,
    ticked,
)
from display.plot import Plot
from evaluation.report.document.chart import COLOURS, Chart, ChartQuantity, Point, Series

STRICT = 0.22  # of the axis, between the last value and strict
LEAST_RUNS = 5  # of a lane on the Pareto front; of fewer the noise of their times decides
GAINS, KEPT = ("speedup", "tau_ratio"), ("recovery", "same")  # the first that is known
KEPT_PX = 380


def front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Return the indices of the points that no other beats, by rising x: one beats another that is
    smaller on one axis and not larger on the other. Points with a nan are left out."""
    known = sorted(
        (point, index) for index, point in enumerate(points) if not any(map(math.isnan, point))
    )
    return [
        index
        for (x, y), index in known
        if not any(x <= right and y <= up and (right, up) != (x, y) for (right, up), _ in known)
    ]


def plots(chart: Chart) -> dict[str, Plot]:
    """Draw ``kept`` where something is known to be kept, such as recovery: over the speed, every
    lane and its placebo with its name beside it; ``parameter`` where one varies, strict at the
    right. The τ ratio, where no speed is known, repeats exactly."""
    drawn, varied = dict[str, Plot](), chart.varied
    gain, kept = chart.first(GAINS), chart.first(KEPT)
    if gain and kept:
        title = f"{kept.title} over {gain.title}. {chart.title}"
        panel = _kept(chart, gain, kept)
        drawn["kept"] = panels_plot(title, [panel], _shapes(chart.series), chart.data, KEPT_PX)
    if varied:
        rows = [point.measured for series in varied for point in series.every]
        known = [each for each in chart.quantities if any(map(each.known, rows))]
        over = parameter_title(varied[0].parameter)
        title = f"{', '.join(each.title for each in known)} over {over}. {chart.title}"
        panels = [_over_parameter(chart, each) for each in known]
        rules = {series.rule: Look(series.look.colour) for series in varied}
        keys = [(look, rule) for rule, look in rules.items()] + _shapes(varied)
        drawn["parameter"] = panels_plot(title, panels, keys, chart.data)
    return drawn


def _over_parameter(chart: Chart, quantity: ChartQuantity) -> Panel:
    varied = chart.varied
    values = (quantity.of(each) for series in varied for each in series.every)
    xs = sorted({point.x for series in varied for point in series.points})
    strict = xs[-1] + STRICT * (xs[-1] - xs[0] or 1)
    ticks = {x: f"{x:g}" for x in xs}
    if any(series.strict for series in varied):
        ticks[strict] = "strict"
    lines = list[list[Mark]]()
    for index, series in enumerate(varied):
        shift = dodge(index, len(varied), [*ticks])
        groups = [[(point, point.x) for point in series.points]]
        groups += [[(series.strict, strict)]] if series.strict else []
        for group in groups:
            known = ((point, at(x + shift)) for point, x in group if quantity.known(point.measured))
            lines.append([_mark(series, point, x, [quantity]) for point, x in known])
    return Panel(
        quantity.title,
        ticked(ticks, parameter_title(varied[0].parameter)),
        spanning(reached(values, quantity.level), **quantity.ticks),
        lines,
        level=quantity.level,
    )


def _kept(chart: Chart, gain: ChartQuantity, kept: ChartQuantity) -> Panel:
    """Draw all lanes with their names; of a lane with fewer runs than others with their number."""
    points = [
        (series, point)
        for series in (*chart.series, *chart.placebos)
        for point in series.points
        if kept.known(point.measured) and gain.known(point.measured)
    ]
    most = max((point.measured.runs for _, point in points), default=0)
    marks, options = list[Mark](), list[tuple[float, float]]()
    for series, point in points:
        mark, runs = _mark(series, point, gain.of(point), [kept, gain]), point.measured.runs
        name = point.label if runs == most else f"{point.label}, {plural(runs, 'run')}"
        marks.append(mark._replace(name=name))
        enough = runs >= LEAST_RUNS and series in chart.series
        options.append((mark.x[0], mark.y[0]) if enough else (math.nan, math.nan))
    return Panel(
        kept.title,
        spanning(reached(each.x for each in marks), gain.title, share=0.05, **gain.ticks),
        spanning(reached((each.y for each in marks), kept.level), **kept.ticks),
        [[marks[index]._replace(look=Look(NEUTRAL)) for index in front(options)]],
        marks,
        kept.level,
    )


def _mark(series: Series, point: Point, x: MarkValue, quantities: Sequence[ChartQuantity]) -> Mark:
    """Place a mark at the value of the first quantity; the text has the values of all, with their
    intervals."""
    values = ", ".join(each.text(point) for each in quantities)
    look = series.look
    if point is series.strict:
        look = look._replace(colour=COLOURS[0])
    return Mark(look, x, quantities[0].of(point), f"{point.label}, {series.name}: {values}")


def _shapes(drawn: Sequence[Series]) -> list[tuple[Look, str]]:
    """Return the shapes of drafters, then what is filled, each only where there are several."""
    shapes = {series.drafts: Look(NEUTRAL, series.look.shape) for series in drawn}
    fills = {series.temperature: Look(NEUTRAL, hollow=series.look.hollow) for series in drawn}
    return [
        (look, name) for each in (shapes, fills) if len(each) > 1 for name, look in each.items()
    ]
