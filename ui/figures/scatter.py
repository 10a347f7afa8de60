"""Runs as points: one of their numbers against another, a colour for each group."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from display.format import plural, shorten
from display.palette import LANES
from display.plot import Data, Plot, axis, drawn

SYMBOLS = ("circle", "square", "diamond", "cross", "triangle-up", "star")


class RunPoint(NamedTuple):
    """``name``: what the run is, in words."""

    x: float
    y: float
    group: str
    name: str


def scatter_plot(points: Sequence[RunPoint], x: str, y: str) -> Plot | None:
    """``x`` and ``y``: names of the numbers. Runs without one of them are left out; None where no
    run has both."""
    drawable = [point for point in points if math.isfinite(point.x) and math.isfinite(point.y)]
    if not drawable:
        return None
    groups: dict[str, list[RunPoint]] = {}
    for point in drawable:
        groups.setdefault(point.group, []).append(point)
    traces = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": escape(shorten(group, 60)),
            "x": [point.x for point in of_group],
            "y": [point.y for point in of_group],
            "text": [escape(shorten(point.name)) for point in of_group],
            "marker": {
                "color": LANES[index % len(LANES)],
                "symbol": SYMBOLS[index // len(LANES) % len(SYMBOLS)],
                "size": 9,
            },
            "hovertemplate": "%{text}<br>%{x:.4g}, %{y:.4g}<extra></extra>",
        }
        for index, (group, of_group) in enumerate(groups.items())
    ]
    without = len(points) - len(drawable)
    note = f"; {plural(without, 'run')} without one of them left out" if without else ""
    title = f"{y} against {x}, {plural(len(drawable), 'run')}{note}"
    figure = drawn(traces, height=380, xaxis=axis(x), yaxis=axis(y), showlegend=True)
    rows = [(point.group, point.name, point.x, point.y) for point in points]
    return Plot(figure, Data(("group", "run", x, y), rows), title)
