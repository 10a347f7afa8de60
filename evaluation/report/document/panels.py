"""The charts of a report: what is kept over the speed, and every quantity over the varied
parameter."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from display.format import plural
from display.names import parameter_title
from display.palette import NEUTRAL
from display.panels import Look, Mark, Panel, panels_plot, reached, spanning
from display.plot import Data, Plot
from evaluation.report.document.chart import Chart, ChartQuantity, Series
from evaluation.report.document.lines import LinePoint, ValueAxis, lines_plot
from evaluation.statistics import interval_columns

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
    drawn = dict[str, Plot]()
    gain, kept = chart.first(GAINS), chart.first(KEPT)
    if gain and kept:
        drawn["kept"] = _kept(chart, gain, kept)
    if varied := chart.varied:
        over = parameter_title(varied[0].parameter)
        points = list(_over_parameter(chart))
        axes = {each.title: ValueAxis(each.ticks, each.level) for each in chart.quantities}
        looks = {series.name: series.look for series in chart.series}
        captions = ", ".join(dict.fromkeys(point.panel for point in points))
        title = f"{captions} over {over}. {chart.title}"
        drawn["parameter"] = lines_plot(title, points, over, axes, looks)
    return drawn


def _over_parameter(chart: Chart) -> Iterator[LinePoint]:
    """Yield the values of the series that vary, and of strict where it does not."""
    varied = chart.varied
    xs = sorted({point.x for series in varied for point in series.points})
    right = xs[-1] + STRICT * (xs[-1] - xs[0] or 1)
    strict = [each for each in chart.series if each.is_strict and each not in varied]
    for quantity in chart.quantities:
        for series in (*varied, *strict):
            for point in series.points:
                x, place = (point.x, f"{point.x:g}") if series in varied else (right, "strict")
                if quantity.known(point.measured):
                    value, text = quantity.of(point), quantity.text(point)
                    yield LinePoint(quantity.title, series.name, x, place, value, text)


def _kept(chart: Chart, gain: ChartQuantity, kept: ChartQuantity) -> Plot:
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
        runs, values = point.measured.runs, f"{kept.text(point)}, {gain.text(point)}"
        name = point.label if runs == most else f"{point.label}, {plural(runs, 'run')}"
        text = f"{point.label}, {series.name}: {values}"
        mark = Mark(series.look, gain.of(point), kept.of(point), text, name)
        marks.append(mark)
        enough = runs >= LEAST_RUNS and series in chart.series
        options.append((mark.x[0], mark.y[0]) if enough else (math.nan, math.nan))
    panel = Panel(
        kept.title,
        spanning(reached(each.x for each in marks), gain.title, share=0.05, **gain.ticks),
        spanning(reached((each.y for each in marks), kept.level), **kept.ticks),
        [[marks[index]._replace(look=Look(NEUTRAL)) for index in front(options)]],
        marks,
        kept.level,
    )
    heads = "lane", "series", *interval_columns(gain.name), *interval_columns(kept.name)
    rows = [
        (point.label, series.name, *gain.of(point), *kept.of(point)) for series, point in points
    ]
    title = f"{kept.title} over {gain.title}. {chart.title}"
    return panels_plot(title, [panel], _shapes(chart.series), Data(heads, rows), KEPT_PX)


def _shapes(drawn: Sequence[Series]) -> list[tuple[Look, str]]:
    """Return the shapes of drafters, then what is filled, each only where there are several."""
    shapes = {series.drafts: Look(NEUTRAL, series.look.shape) for series in drawn}
    fills = {series.temperature: Look(NEUTRAL, hollow=series.look.hollow) for series in drawn}
    return [
        (look, name) for each in (shapes, fills) if len(each) > 1 for name, look in each.items()
    ]
