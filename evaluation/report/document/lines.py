"""Series of values with intervals over one quantity, as a picture of several panels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from display.blocks import Picture
from display.format import number
from display.palette import NEUTRAL
from display.panels import Look, Mark, Panel, at, dodge, panels_plot, spanning, ticked
from display.plot import Data
from evaluation.report.document.cells import beside
from evaluation.report.document.chart import COLOURS
from evaluation.report.metrics import Write
from evaluation.statistics import Interval, interval_columns

HEADS = ("panel", "series", "x", *interval_columns("value"))
ALONE = "none"  # the series without drafts


class LinePoint(NamedTuple):
    """``panel``: the caption of its axes; ``series``: as the legend has it; ``place``: what x is in
    words."""

    panel: str
    series: str
    x: float
    place: str
    value: Interval


def lines_picture(
    name: str,
    label: str,
    title: str,
    points: Sequence[LinePoint],
    over: str = "",
    write: Write = number,
    *,
    shared: bool = True,
    **ticks: Any,
) -> Picture:
    """Draw a panel for each caption, with a line for each series. ``name``, ``label``: as of a
    picture; ``over``: the title of an axis on which the places stand in words; ``shared``: all
    panels have one axis of values; ``ticks``: its look."""
    series = list(dict.fromkeys(point.series for point in points))
    colours = iter(COLOURS[1 + index % (len(COLOURS) - 1)] for index in range(len(series)))
    looks = {each: Look(NEUTRAL if each == ALONE else next(colours)) for each in series}
    panels = []
    for caption in dict.fromkeys(point.panel for point in points):
        here = [point for point in points if point.panel == caption]
        places = {point.x: point.place for point in sorted(here, key=lambda point: point.x)}
        lines = defaultdict[str, list[Mark]](list)
        for point in here:
            x = at(point.x + dodge(series.index(point.series), len(series), [*places]))
            text = f"{point.series}, {point.place}: {beside(point.value, write)}"
            lines[point.series].append(Mark(looks[point.series], x, point.value, text))
        ends = (end for point in (points if shared else here) for end in point.value)
        across = ticked(places, over) if over else spanning(places)
        panels.append(Panel(caption, across, spanning(ends, **ticks), [*lines.values()]))
    data = Data(HEADS, [(each.panel, each.series, each.place, *each.value) for each in points])
    keys = [(look, each) for each, look in looks.items()]
    return Picture(name, label, panels_plot(title, panels, keys, data))
