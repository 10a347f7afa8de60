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
GAINS = {"speedup": "tradeoff", "tau_ratio": "tau"}
KEPT_PX = 380


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


def plots(chart: Chart) -> dict[str, Plot]:
    """Draw ``kept`` where a cost is known: the first one, such as recovery, over the speed, every
    lane and its placebo with its name beside it; ``parameter`` where one varies, strict at the
    right; ``tradeoff`` and ``tau``, further costs over speed-up and τ ratio, one mark a lane, with
    both intervals. The τ ratio repeats exactly, also where the times are noise."""
    data, drawn, varied = chart.data, dict[str, Plot](), chart.varied
    costs = [each for each in chart.quantities if each.cost]
    gains = [each for each in chart.quantities if each.name in GAINS] if costs else []
    if gains:
        title = f"{costs[0].title} over {gains[0].title}. {chart.title}"
        panel = _tradeoff(chart, gains[0], costs[0], named=True)
        drawn["kept"] = panels_plot(title, [panel], _shapes(chart.series), data, KEPT_PX)
    if varied:
        rows = [point.measured for series in varied for point in series.every]
        known = [each for each in chart.quantities if any(map(each.known, rows))]
        over = parameter_title(varied[0].parameter)
        title = f"{', '.join(each.title for each in known)} over {over}. {chart.title}"
        panels = [_over_parameter(chart, each) for each in known]
        drawn["parameter"] = panels_plot(title, panels, _keys(varied), data)
    for gain in gains:
        if others := costs[gain is gains[0] :]:
            panels = [_tradeoff(chart, gain, each) for each in others]
            title = (
                f"{' and '.join(each.title for each in others)} over {gain.title}. {chart.title}"
            )
            drawn[GAINS[gain.name]] = panels_plot(title, panels, _keys(chart.series), data)
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


def _tradeoff(
    chart: Chart, gain: ChartQuantity, cost: ChartQuantity, *, named: bool = False
) -> Panel:
    """``named``: with the placebos, and names beside the marks."""
    every = (*chart.series, *chart.placebos) if named else chart.series
    points = [
        (series, point)
        for series in every
        for point in series.points
        if cost.known(point.measured) and gain.known(point.measured)
    ]
    most = max((point.measured.runs for _, point in points), default=0)
    names = [_name(point, most) if named else "" for _, point in points]
    marks = [
        _mark(series, point, gain.of(point), [cost, gain])._replace(name=name)
        for (series, point), name in zip(points, names, strict=True)
    ]
    enough = [
        (cost.cost * cost.of(point).value, gain.of(point).value)
        if point.measured.runs >= LEAST_RUNS and series in chart.series
        else (math.nan, math.nan)
        for series, point in points
    ]
    return Panel(
        cost.title,
        spanning(reached(each.x for each in marks), gain.title, share=0.05, **gain.ticks),
        spanning(reached((each.y for each in marks), cost.level), **cost.ticks),
        [[marks[index]._replace(look=Look(NEUTRAL)) for index in front(enough)]],
        marks,
        cost.level,
    )


def _name(point: Point, most: int) -> str:
    """Return what stands beside a mark; of a lane with fewer runs than the ``most`` their number."""
    runs = point.measured.runs
    return point.label if runs == most else f"{point.label}, {plural(runs, 'run')}"


def _mark(series: Series, point: Point, x: MarkValue, quantities: Sequence[ChartQuantity]) -> Mark:
    """Place a mark at the value of the first quantity; the text has the values of all, with their
    intervals."""
    values = ", ".join(each.text(point) for each in quantities)
    look = series.look
    if point is series.strict:
        look = look._replace(colour=COLOURS[0])
    return Mark(look, x, quantities[0].of(point), f"{point.label}, {series.name}: {values}")


def _keys(drawn: Sequence[Series]) -> list[tuple[Look, str]]:
    """Return the colours of rules, then shapes."""
    colours = [
        (Look(colour), rule)
        for rule, colour in {series.rule: series.look.colour for series in drawn}.items()
    ]
    return colours + _shapes(drawn)


def _shapes(drawn: Sequence[Series]) -> list[tuple[Look, str]]:
    """Return the shapes of drafters, then what is filled, each only where there are several."""
    shapes = {series.drafts: Look(NEUTRAL, series.look.shape) for series in drawn}
    fills = {series.temperature: Look(NEUTRAL, hollow=series.look.hollow) for series in drawn}
    return [
        (look, name) for each in (shapes, fills) if len(each) > 1 for name, look in each.items()
    ]
