"""Marks with intervals on panels, two in a row, as one figure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import chain, groupby
from typing import Any, NamedTuple, TypeVar

from display.format import displayable
from display.palette import NEUTRAL
from display.plot import Data, FigurePart, Plot, axis, drawn

ROW_PX, COLUMNS, WIDTH = 300, 2, 0.46  # the width of a panel is a share of the figure's
CAPTION_PX, FOOT_PX = 26, 58  # above and below the axes of a panel
DODGE = 0.014  # of an axis between marks of series that have the same x
MarkValue = tuple[float, float, float]  # a value and both ends of its interval, nan where unknown

K = TypeVar("K")


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
    """A value on both axes with its name in words."""

    look: Look
    x: MarkValue
    y: MarkValue
    text: str


class Panel(NamedTuple):
    """One pair of axes, each as ``spanning`` gives it; the caption is that of ``y``. ``lines``: marks
    that are joined. ``marks``: None for those of the lines. ``level``: axis across which a line
    stands, at which value, and its name."""

    caption: str
    x: FigurePart
    y: FigurePart
    lines: Sequence[Sequence[Mark]]
    marks: Sequence[Mark] | None = None
    level: tuple[str, float, str] | None = None


def at(value: float) -> MarkValue:
    """Give a value that has no interval."""
    return value, math.nan, math.nan


def dodge(index: int, series: int, values: Sequence[float]) -> float:
    """Give the distance of a series from the x that it shares with others."""
    return DODGE * ((max(values) - min(values)) or 1.0) * (index - (series - 1) / 2)


def beside_each_other(
    points: Iterable[tuple[K, float, MarkValue, str]], looks: Mapping[K, Look], xs: Sequence[float]
) -> list[list[Mark]]:
    """Return the lines of series that share their ``xs``, a little apart. ``points``: the key of a
    series, x, value and text."""
    lines: dict[K, list[Mark]] = {}
    for key, x, value, text in points:
        shift = dodge([*looks].index(key), len(looks), xs)
        lines.setdefault(key, []).append(Mark(looks[key], at(x + shift), value, text))
    return [*lines.values()]


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


def reached(spreads: Iterable[MarkValue], *levels: float) -> list[float]:
    """List what an axis spans: all values and levels, and the ends of intervals as far as the values
    are apart, or half of the largest value."""
    every = list(spreads)
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
    title: str, panels: Sequence[Panel], legend: Iterable[tuple[Look, str]], data: Data
) -> Plot:
    """Draw the panels under one legend."""
    rows = math.ceil(len(panels) / COLUMNS)
    traces = [
        {"type": "scatter", "mode": "markers", "x": [None], "y": [None], "hoverinfo": "skip"}
        | {"name": plain(name), "marker": look.marker}
        for look, name in legend
    ]
    axes = dict[str, FigurePart]()
    shapes, annotations = list[FigurePart](), list[FigurePart]()
    for index, panel in enumerate(panels):
        number = str(index + 1) if index else ""
        row, column = divmod(index, COLUMNS)
        left, px = column * (1 - WIDTH), 1 / (ROW_PX * rows)
        domain = [1 - (row + 1) / rows + FOOT_PX * px, 1 - row / rows - CAPTION_PX * px]
        axes[f"xaxis{number}"] = panel.x | {"anchor": f"y{number}", "domain": [left, left + WIDTH]}
        axes[f"yaxis{number}"] = panel.y | {"anchor": f"x{number}", "domain": domain}
        on = {"xaxis": f"x{number}", "yaxis": f"y{number}"}
        traces += [each | on for each in _traces(panel)]
        above = {"text": f"<b>{plain(panel.caption)}</b>", "x": 0, "y": 1, "xanchor": "left"}
        annotations.append(_within(number) | above | {"yanchor": "bottom", "showarrow": False})
        if panel.level:
            line, note = _level(number, *panel.level)
            shapes.append(line)
            annotations.append(note)
    figure = drawn(
        traces,
        height=ROW_PX * rows + 60,
        margin={"l": 8, "r": 8, "t": 40, "b": 8},
        hovermode="closest",
        shapes=shapes,
        annotations=annotations,
        **axes,
    )
    return Plot(figure, data, displayable(title))


def _within(number: str) -> FigurePart:
    return {"xref": f"x{number} domain", "yref": f"y{number} domain"}


def _level(number: str, name: str, value: float, text: str) -> tuple[FigurePart, FigurePart]:
    """Return a dashed line across a panel with its name at the upper or left end."""
    other = "y" if name == "x" else "x"
    where = _within(number) | {f"{name}ref": f"{name}{number}"}
    line = {"type": "line", f"{name}0": value, f"{name}1": value, f"{other}0": 0, f"{other}1": 1}
    looks = {"line": {"color": NEUTRAL, "width": 1, "dash": "dash"}}
    upright = name == "x"
    anchors = {"xanchor": "right", "yanchor": "top"} if upright else {"xanchor": "left"}
    note = {"text": plain(text), "showarrow": False, name: value, other: int(upright)}
    return where | line | looks, where | {"yanchor": "bottom"} | note | anchors


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
    for look, same in groupby(sorted(marks, key=_look), key=_look):
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


def _look(mark: Mark) -> Look:
    return mark.look


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
