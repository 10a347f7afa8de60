"""Series of values with intervals over one quantity, as a figure of several panels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from display.palette import LANES, NEUTRAL
from display.panels import (
    Level,
    Look,
    Mark,
    Panel,
    at,
    dodge,
    panels_plot,
    reached,
    spanning,
    ticked,
)
from display.plot import Data, FigurePart, Plot
from evaluation.statistics import Interval, interval_columns

# Of rules: strict, then the others in the order of the plan; no outcome's is among them.
COLOURS = (*LANES, "#5F8A2F", "#3F6FB5", "#9A5B7E", "#6B5B45")
SHARES: FigurePart = {"tickformat": "~%"}
TIMES: FigurePart = {"ticksuffix": "×"}
HEADS = ("panel", "series", "x", *interval_columns("value"))
ALONE = "none"  # the series without drafts


class LinePoint(NamedTuple):
    """``panel``: the caption of its axes; ``series``: as the legend has it; ``place``: what x is in
    words; ``text``: the value."""

    panel: str
    series: str
    x: float
    place: str
    value: Interval
    text: str


class ValueAxis(NamedTuple):
    """The axis of values: how its ticks look, and what is enough."""

    ticks: FigurePart
    level: Level | None = None


def lines_plot(
    title: str,
    points: Sequence[LinePoint],
    over: str = "",
    axes: Mapping[str, ValueAxis] | ValueAxis | None = None,
    looks: Mapping[str, Look] | None = None,
) -> Plot:
    """Draw a panel for each caption, with a line for each series. ``over``: the title of an axis on
    which the places stand in words; ``axes``: of each panel, else all have the same; ``looks``: of
    the series, else their colours differ."""
    series = list(dict.fromkeys(point.series for point in points))
    colours = iter(COLOURS[1 + index % (len(COLOURS) - 1)] for index in range(len(series)))
    looks = looks or {each: Look(NEUTRAL if each == ALONE else next(colours)) for each in series}
    panels = []
    for caption in dict.fromkeys(point.panel for point in points):
        here = [point for point in points if point.panel == caption]
        own = axes.get(caption) if isinstance(axes, Mapping) else axes
        ticks, level = own or ValueAxis({})
        places = {point.x: point.place for point in sorted(here, key=lambda point: point.x)}
        lines = defaultdict[str, list[Mark]](list)
        for point in here:
            x = at(point.x + dodge(series.index(point.series), len(series), [*places]))
            text = f"{point.series}, {point.place}: {point.text}"
            lines[point.series].append(Mark(looks[point.series], x, point.value, text))
        same = here if isinstance(axes, Mapping) else points
        values = spanning(reached((each.value for each in same), level), **ticks)
        across = ticked(places, over) if over else spanning(places)
        panels.append(Panel(caption, across, values, [*lines.values()], level=level))
    data = Data(HEADS, [(each.panel, each.series, each.place, *each.value) for each in points])
    return panels_plot(title, panels, [(looks[each], each) for each in series], data)
