"""Marks with intervals on panels, two in a row, as one figure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import chain, groupby
from operator import attrgetter
from typing import Any, NamedTuple

from display.format import displayable
from display.palette import NEUTRAL
from display.placing import beside_marks
from display.plot import LEGEND, Data, FigurePart, Plot, axis, drawn

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
    columns, rows = min(COLUMNS, len(panels)), math.ceil(len(panels) / COLUMNS)
    traces = [
        _marks(look) | {"x": [None], "y": [None], "name": plain(name), "hoverinfo": "skip"}
        for look, name in legend
    ]
    above = LEGEND_PX if traces else 0
    size = FIGURE_PX * (1 if columns == 1 else WIDTH), row_px - CAPTION_PX - FOOT_PX
    axes, parts = dict[str, FigurePart](), list[tuple[FigurePart, FigurePart]]()
    for index, panel in enumerate(panels, start=1):
        number = str(index) if index > 1 else ""
        axes |= {f"xaxis{number}": panel.x, f"yaxis{number}": panel.y}
        on = {"xaxis": f"x{number}", "yaxis": f"y{number}"}
        traces += [{"showlegend": False} | each | on for each in _traces(panel)]
        parts += _labels(panel, number, size)
    figure = drawn(
        traces,
        height=row_px * rows + 28 + above,
        margin={"l": 8, "r": 8, "t": 8 + above + CAPTION_PX, "b": 8 + FOOT_PX},
        legend=LEGEND | {"y": 1 + CAPTION_PX / (row_px * rows - CAPTION_PX - FOOT_PX)},
        grid={
            "rows": rows,
            "columns": columns,
            "pattern": "independent",
            "xgap": (1 - 2 * WIDTH) / (1 - WIDTH),
            "ygap": (CAPTION_PX + FOOT_PX) / row_px,
        },
        hovermode="closest",
        shapes=[shape for shape, _ in parts if shape],
        annotations=[note for _, note in parts],
        **axes,
    )
    return Plot(figure, data, displayable(title))


def _labels(
    panel: Panel, number: str, size: tuple[float, float]
) -> Iterator[tuple[FigurePart, FigurePart]]:
    """Yield the texts of a panel of this ``size`` in pixels, each with a line that it names, if any:
    the caption, the names beside the marks, and the level below the left end of its dashed line."""
    left = {"x": 0, "xanchor": "left", "showarrow": False, "xref": f"x{number} domain"}
    caption = {"text": f"<b>{plain(panel.caption)}</b>", "y": 1, "yref": f"y{number} domain"}
    yield {}, left | caption | {"yanchor": "bottom"}
    named = [(each.x[0], each.y[0], plain(each.name)) for each in panel.marks or () if each.name]
    level = panel.level and panel.level[0]
    for name in beside_marks(named, panel.x["range"], panel.y["range"], size, level):
        yield {}, name | {"xref": f"x{number}", "yref": f"y{number}"}
    if panel.level:
        value, text = panel.level
        where = {"xref": f"x{number} domain", "yref": f"y{number}"}
        line = {"type": "line", "y0": value, "y1": value, "x0": 0, "x1": 1}
        look = {"line": {"color": NEUTRAL, "width": 1, "dash": "dash"}}
        note = {"text": plain(text), "y": value, "yanchor": "top", "yref": f"y{number}"}
        yield where | line | look, left | note


def _traces(panel: Panel) -> Iterator[FigurePart]:
    for line in panel.lines:
        if len(line) > 1:
            yield {
                "type": "scatter",
                "mode": "lines",
                "x": [mark.x[0] for mark in line],
                "y": [mark.y[0] for mark in line],
                "line": {"color": line[0].look.colour, "width": 1},
                "hoverinfo": "skip",
            }
    marks = chain(*panel.lines) if panel.marks is None else panel.marks
    by_look = attrgetter("look")
    for look, same in groupby(sorted(marks, key=by_look), key=by_look):
        alike = list(same)
        yield _marks(look) | {
            "x": [mark.x[0] for mark in alike],
            "y": [mark.y[0] for mark in alike],
            "error_x": _bars([mark.x for mark in alike], look.colour),
            "error_y": _bars([mark.y for mark in alike], look.colour),
            "text": [plain(mark.text) for mark in alike],
            "hoverinfo": "text",
        }


def _marks(look: Look) -> FigurePart:
    """Begin a trace of marks, each of a symbol that has an open form."""
    symbol = f"{look.shape}-open" if look.hollow else look.shape
    line = {"color": look.colour, "width": 1.6}
    marker = {"color": look.colour, "symbol": symbol, "size": 8, "line": line}
    return {"type": "scatter", "mode": "markers", "marker": marker}


def _bars(spreads: Sequence[MarkValue], colour: str) -> FigurePart:
    """Return the intervals of marks; nan where an end is unknown, which draws none."""
    return {
        "type": "data",
        "symmetric": False,
        "arrayminus": [value - low for value, low, _ in spreads],
        "array": [high - value for value, _, high in spreads],
        "color": colour,
        "thickness": 1.2,
        "width": 0,
        "visible": any(math.isfinite(high - low) for _, low, high in spreads),
    }
