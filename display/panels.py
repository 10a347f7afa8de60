"""Marks with intervals on panels, two in a row, as one figure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import chain, groupby
from operator import attrgetter
from typing import Any, NamedTuple

from display.format import displayable
from display.palette import NEUTRAL
from display.placing import beside_marks
from display.plot import Data, FigurePart, Plot, axis, drawn

ROW_PX, COLUMNS, WIDTH = 300, 2, 0.46  # the width of a panel is a share of the figure's
FIGURE_PX = 600  # of the axes of the narrowest figure
CAPTION_PX, FOOT_PX, LEGEND_PX = 26, 58, 32  # above and below the axes of a panel
DODGE = 0.014  # of an axis between marks of series that have the same x
MarkValue = tuple[float, float, float]  # a value and both ends of its interval, nan where unknown
Level = tuple[float, str]  # where a line lies across, and its name


class Look(NamedTuple):
    """``shape``: a symbol of Plotly's that has an open form."""

    colour: str
    shape: str = "circle"
    hollow: bool = False

    @property
    def marker(self) -> FigurePart:
        symbol = f"{self.shape}-open" if self.hollow else self.shape
        line = {"color": self.colour, "width": 1.6}
        return {"color": self.colour, "symbol": symbol, "size": 8, "line": line}


class Mark(NamedTuple):
    """A value on both axes with its name in words. ``name``: what stands beside it."""

    look: Look
    x: MarkValue
    y: MarkValue
    text: str
    name: str = ""


class Panel(NamedTuple):
    """One pair of axes, each as ``spanning`` gives it; the caption is that of ``y``. ``lines``: marks
    that are joined. ``marks``: None for those of the lines."""

    caption: str
    x: FigurePart
    y: FigurePart
    lines: Sequence[Sequence[Mark]]
    marks: Sequence[Mark] | None = None
    level: Level | None = None


def at(value: float) -> MarkValue:
    """Give a value that has no interval."""
    return value, math.nan, math.nan


def dodge(index: int, series: int, values: Sequence[float]) -> float:
    """Give the distance of a series from the x that it shares with others."""
    return DODGE * ((max(values) - min(values)) or 1.0) * (index - (series - 1) / 2)


def ticked(names: Mapping[float, str], title: str) -> FigurePart:
    """Make an axis with these ticks alone."""
    return spanning(names, title, tickvals=[*names], ticktext=[*names.values()])


def spanning(
    values: Iterable[float], title: str = "", *, share: float = 0.08, **more: Any
) -> FigurePart:
    """Make an axis over the finite values, with a ``share`` of their range free at both ends."""
    finite = list(filter(math.isfinite, values))
    least, most = min(finite), max(finite)
    room = share * (most - least) or 0.05 * abs(most) or 0.5
    return axis(plain(title), range=[least - room, most + room], **more)


def reached(spreads: Iterable[MarkValue], level: Level | None = None) -> list[float]:
    """List what an axis spans: all values and the level, and the ends of intervals as far as the
    values are apart, or half of the largest value."""
    every, levels = list(spreads), [level[0]] if level else []
    known = [value for value in (*(each[0] for each in every), *levels) if math.isfinite(value)]
    if not known:
        return []
    least, most = min(known), max(known)
    beyond = max(most - least, max(abs(least), abs(most)) / 2)
    ends = (min(max(end, least - beyond), most + beyond) for each in every for end in each)
    return [*ends, *levels]


def plain(text: str) -> str:
    """Write a text as nothing but text for Plotly, which reads a subset of HTML."""
    return escape(displayable(text))


def panels_plot(
    title: str,
    panels: Sequence[Panel],
    legend: Iterable[tuple[Look, str]],
    data: Data,
    row_px: int = ROW_PX,
) -> Plot:
    """Draw the panels under one legend; a single one as wide as the figure."""
    rows, share = math.ceil(len(panels) / COLUMNS), WIDTH if len(panels) > 1 else 1.0
    traces = [
        {"type": "scatter", "mode": "markers", "x": [None], "y": [None], "hoverinfo": "skip"}
        | {"name": plain(name), "marker": look.marker}
        for look, name in legend
    ]
    above = LEGEND_PX if traces else 0
    axes = dict[str, FigurePart]()
    shapes, annotations = list[FigurePart](), list[FigurePart]()
    for index, panel in enumerate(panels):
        number = str(index + 1) if index else ""
        row, column = divmod(index, COLUMNS)
        left, px = column * (1 - WIDTH), 1 / (row_px * rows)
        domain = [1 - (row + 1) / rows + FOOT_PX * px, 1 - row / rows - CAPTION_PX * px]
        axes[f"xaxis{number}"] = panel.x | {"anchor": f"y{number}", "domain": [left, left + share]}
        axes[f"yaxis{number}"] = panel.y | {"anchor": f"x{number}", "domain": domain}
        traces += [
            each | {f"{name}axis": f"{name}{number}" for name in "xy"} for each in _traces(panel)
        ]
        caption = {"text": f"<b>{plain(panel.caption)}</b>", "x": 0, "y": 1, "xanchor": "left"}
        annotations.append(_within(number) | caption | {"yanchor": "bottom", "showarrow": False})
        size = FIGURE_PX * share, row_px - CAPTION_PX - FOOT_PX
        annotations += [each | _on(number) for each in _names(panel, size)]
        if panel.level:
            line, note = _level(number, *panel.level)
            shapes.append(line)
            annotations.append(note)
    figure = drawn(
        traces,
        height=row_px * rows + 28 + above,
        margin={"l": 8, "r": 8, "t": 8 + above, "b": 8},
        hovermode="closest",
        shapes=shapes,
        annotations=annotations,
        **axes,
    )
    return Plot(figure, data, displayable(title))


def _names(panel: Panel, size: tuple[float, float]) -> Iterable[FigurePart]:
    """Return the names that stand beside the marks of a panel of this ``size`` in pixels."""
    marks = [each for each in panel.marks or () if each.name]
    named = [(each.x[0], each.y[0], plain(each.name)) for each in marks]
    level = panel.level and panel.level[0]
    return beside_marks(named, panel.x["range"], panel.y["range"], size, level)


def _on(number: str) -> FigurePart:
    return {"xref": f"x{number}", "yref": f"y{number}"}


def _within(number: str) -> FigurePart:
    return {"xref": f"x{number} domain", "yref": f"y{number} domain"}


def _level(number: str, value: float, text: str) -> tuple[FigurePart, FigurePart]:
    """Return a dashed line across a panel with its name below the left end."""
    where = _within(number) | {"yref": f"y{number}"}
    line = {"type": "line", "y0": value, "y1": value, "x0": 0, "x1": 1}
    looks = {"line": {"color": NEUTRAL, "width": 1, "dash": "dash"}}
    note = {"text": plain(text), "showarrow": False, "x": 0, "y": value, "xanchor": "left"}
    return where | line | looks, where | note | {"yanchor": "top"}


def _traces(panel: Panel) -> Iterable[FigurePart]:
    for line in panel.lines:
        if len(line) > 1:
            yield {
                "type": "scatter",
                "mode": "lines",
                "x": [mark.x[0] for mark in line],
                "y": [mark.y[0] for mark in line],
                "line": {"color": line[0].look.colour, "width": 1},
                "hoverinfo": "skip",
                "showlegend": False,
            }
    marks = chain(*panel.lines) if panel.marks is None else panel.marks
    by_look = attrgetter("look")
    for look, same in groupby(sorted(marks, key=by_look), key=by_look):
        alike = list(same)
        yield {
            "type": "scatter",
            "mode": "markers",
            "x": [mark.x[0] for mark in alike],
            "y": [mark.y[0] for mark in alike],
            "error_x": _bars([mark.x for mark in alike], look.colour),
            "error_y": _bars([mark.y for mark in alike], look.colour),
            "text": [plain(mark.text) for mark in alike],
            "hoverinfo": "text",
            "marker": look.marker,
            "showlegend": False,
        }


def _bars(spreads: Sequence[MarkValue], colour: str) -> FigurePart:
    """Return the intervals of marks; none where an end is unknown."""
    ends = [
        (value - low, high - value) if math.isfinite(high - low) else (None, None)
        for value, low, high in spreads
    ]
    return {
        "type": "data",
        "symmetric": False,
        "arrayminus": [below for below, _ in ends],
        "array": [above for _, above in ends],
        "color": colour,
        "thickness": 1.2,
        "width": 0,
        "visible": any(above is not None for _, above in ends),
    }
