"""The charts of a report as drawings: every quantity over the varied parameter, and speed-up against
what it costs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from display.blocks import Axis, Drawing, Look, Mark, Panel
from evaluation.report.document.chart import COLOURS, Chart, ChartQuantity, Point, Series
from evaluation.report.document.drawing import (
    GREY,
    AxisScale,
    across,
    empty_panel,
    interval_mark,
    reached,
    with_legend,
)

DODGE = 6.0  # pixels between the bars of series that have the same x
STRICT = 64  # width of the area for strict at the right of a panel
LEAST_RUNS = 5  # of a lane on the Pareto front; of fewer the noise of their times decides


def front(options: Sequence[tuple[float, float]]) -> tuple[int, ...]:
    """Indices of the Pareto-optimal options by rising cost; an option is (cost, gain): less cost
    and more gain are better.

    One option beats another that costs no less and gains no more, unless both are equal. Options
    with a nan are ignored.
    """
    known = [index for index, option in enumerate(options) if not any(map(math.isnan, option))]
    best: list[int] = []
    for index in sorted(known, key=lambda index: (options[index][0], -options[index][1])):
        if (
            not best
            or options[index][1] > options[best[-1]][1]
            or options[index] == options[best[-1]]
        ):
            best.append(index)
    return tuple(best)


def drawings(chart: Chart) -> dict[str, Drawing]:
    """``parameter`` where one varies, strict at the right; where a cost is known ``tradeoff`` and
    ``tau``, speed-up and τ ratio against it, one mark a lane, with both intervals. The τ ratio
    repeats exactly, also where the times are noise."""
    drawn, varied = {}, chart.varied
    if varied:
        rows = [point.measured for series in varied for point in series.every]
        known = [each for each in chart.quantities if any(map(each.known, rows))]
        panels = tuple(_over_parameter(chart, *each) for each in enumerate(known))
        title = (
            f"{', '.join(each.title for each in known)} over {varied[0].parameter}. {chart.title}"
        )
        drawn["parameter"] = with_legend(title, panels, _keys(varied))
    if costs := [each for each in chart.quantities if each.cost]:
        names = " and ".join(each.title for each in costs)
        gains = {"speedup": "tradeoff", "tau_ratio": "tau"}
        for gain in [each for each in chart.quantities if each.name in gains]:
            panels = tuple(_tradeoff(chart, gain, *each) for each in enumerate(costs))
            title = f"{gain.title} against {names}. {chart.title}"
            drawn[gains[gain.name]] = with_legend(title, panels, _keys(chart.series))
    return drawn


def _over_parameter(chart: Chart, number: int, quantity: ChartQuantity) -> Panel:
    varied, level = chart.varied, _level(chart, quantity)
    values = (quantity.of(each) for series in varied for each in series.every)
    xs = sorted({point.x for series in varied for point in series.points})
    x_scale = AxisScale(varied[0].parameter, xs, "{:g}".format, 0.12, xs)
    y_scale = AxisScale(quantity.title, reached(values, *level), quantity.tick)
    panel = empty_panel(number, x_scale, y_scale, STRICT)
    strict = panel.right - STRICT / 2
    drawn = []
    for index, series in enumerate(varied):
        shift = DODGE * (index - (len(varied) - 1) / 2)
        groups = [[(point, panel.x.at(point.x)) for point in series.points]]
        groups += [[(series.strict, strict)]] if series.strict else []
        for group in groups:
            known = ((point, at + shift) for point, at in group if quantity.known(point.measured))
            drawn.append(tuple(_mark(panel, series, *each, [quantity]) for each in known))
    x = panel.x
    if any(series.strict for series in varied):
        x = x._replace(ticks=(*x.ticks, (strict, "strict")))
    lines, margin = tuple(drawn), _line("y", panel.y, quantity, level)
    return panel._replace(x=x, series=lines, lines=lines, level=margin)


def _tradeoff(chart: Chart, gain: ChartQuantity, number: int, cost: ChartQuantity) -> Panel:
    level = _level(chart, cost)
    points = [
        (series, point, cost.of(point), gain.of(point))
        for series in chart.series
        for point in series.points
        if cost.known(point.measured)
    ]
    prices, gains = (
        reached((each[2] for each in points), *level),
        reached(each[3] for each in points),
    )
    x_scale = AxisScale(cost.title, prices, cost.tick, 0.05)
    panel = empty_panel(number, x_scale, AxisScale(gain.title, gains, gain.tick))
    marks = []
    for series, point, price, worth in points:
        mark = _mark(panel, series, point, panel.x.at(price.value), [gain, cost])
        bars = mark.bars + across(panel.y.at(worth.value), price, panel.x)
        marks.append(mark._replace(bars=bars))
    enough = [
        (cost.cost * price.value if point.measured.runs >= LEAST_RUNS else math.nan, worth.value)
        for _, point, price, worth in points
    ]
    best = tuple(marks[at]._replace(look=Look(GREY)) for at in front(enough))
    margin = _line("x", panel.x, cost, level)
    return panel._replace(series=(tuple(marks),), lines=(best,), level=margin)


def _mark(
    panel: Panel, series: Series, point: Point, x: float, quantities: Sequence[ChartQuantity]
) -> Mark:
    """At the value of the first quantity; the text has the values of all, with their intervals."""
    colour = COLOURS[0] if point is series.strict else series.colour
    values = ", ".join(each.text(point) for each in quantities)
    look, text = (
        Look(colour, series.shape, series.hollow),
        f"{point.label}, {series.name}: {values}",
    )
    return interval_mark(panel, look, x, quantities[0].of(point), text)


def _level(chart: Chart, quantity: ChartQuantity) -> list[float]:
    """The margin, where a panel shows recovery."""
    return [chart.margin] if quantity.name == "recovery" else []


def _line(
    name: str, axis: Axis, quantity: ChartQuantity, level: Sequence[float]
) -> tuple[str, float, str]:
    """The line across a panel at the margin."""
    lines = ((name, axis.at(each), f"margin {quantity.tick(each)}") for each in level)
    return next(lines, ("", 0.0, ""))


def _keys(drawn: Sequence[Series]) -> list[tuple[Look, str]]:
    """Colours of rules, then shapes, then what is filled; the latter two only where there are
    several."""
    colours = [
        (Look(colour), rule)
        for rule, colour in {series.rule: series.colour for series in drawn}.items()
    ]
    shapes = {series.drafts: Look(GREY, series.shape) for series in drawn}
    fills = {series.temperature: Look(GREY, hollow=series.hollow) for series in drawn}
    return colours + [
        (look, name) for each in (shapes, fills) if len(each) > 1 for name, look in each.items()
    ]
