"""What a figure is to the page, and what figures share: fonts, axes, rows, legends, the scale of
margins, text that cannot become markup.

A figure is drawn in the colours of the light page; the page replaces them by those of the theme
(``THEMED``) and sets captions, grid and ground itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

import plotly.graph_objects as go

from display.format import visible
from display.palette import GRID, NEUTRAL, OUTCOME_STYLES

PointValue = str | float | int | None  # None and nan: an empty cell
FigurePart = dict[str, Any]  # of a Plotly figure: a trace, a marker, a shape, an annotation
INK = "#15171C"  # marks on coloured cells: the same in both themes
TEXT = "#1B1E24"  # labels on the ground
FAINT = "#A9AEB8"  # opaque lines that may lie on each other
LEGEND: FigurePart = {
    "orientation": "h",
    "x": 0,
    "y": 1,
    "yanchor": "bottom",
    "itemclick": False,
    "itemdoubleclick": False,
}
THEMED: Mapping[str, str] = (
    {NEUTRAL: "--body-text-color-subdued", GRID: "--border-color-primary"}
    | {TEXT: "--body-text-color", FAINT: "--border-color-accent"}
    | {style.light: f"--mars-{outcome}" for outcome, style in OUTCOME_STYLES.items()}
)  # colour of a figure → the variable of the page that stands in for it; both light and dark


@dataclass(frozen=True, slots=True)
class Data:
    """The numbers of a figure as its CSV has them: raw, unrounded, one head a column. Texts as they
    are: nothing is escaped."""

    heads: tuple[str, ...]
    rows: Sequence[tuple[PointValue, ...]]


@dataclass(frozen=True, slots=True)
class Plot:
    """One figure. ``title`` says in one line what is to be seen, also to who cannot see it. A trace
    whose points are tokens says so in its ``meta``: ``{"lane": 0, "position": 3}`` is the lane, and
    the index in every point's ``customdata`` that holds the output position. A click there shows
    the token."""

    figure: go.Figure
    data: Data
    title: str


class SubplotRow(NamedTuple):
    """A row of a figure: its caption, its traces, and what is marked across its height. The axes
    are not named in them."""

    caption: str
    traces: Iterable[FigurePart]
    shapes: Iterable[FigurePart] = ()
    annotations: Iterable[FigurePart] = ()


def drawn(traces: Iterable[FigurePart], *, height: int, **layout: Any) -> go.Figure:
    """Draw a figure of traces as plain mappings, over the layout that all share. Not validated:
    that costs twenty times the rest. Tests validate every figure."""
    defaults = {
        "height": height,
        "margin": {"l": 52, "r": 14, "t": 34, "b": 44},
        "font": {"color": NEUTRAL, "size": 12},
        "legend": LEGEND,
        "hoverlabel": {"align": "left"},
        "template": {},
    }
    return go.Figure(data=list(traces), layout=defaults | layout, _validate=False)


def drawn_rows(
    rows: Sequence[SubplotRow],
    *,
    row_px: int,
    room_px: int,
    x: FigurePart,
    y: FigurePart,
    key: Iterable[FigurePart] = (),
    **layout: Any,
) -> go.Figure:
    """Rows under each other on one x axis: ``y``, ``y2`` … from above. ``room_px``: height beside
    that of the rows; ``x``, ``y``: see ``axis``; ``key``: traces of the legend."""
    gap = 24 / (row_px * len(rows))  # as a share of the height; the caption stands in it
    height = (1 - gap * len(rows)) / len(rows)
    numbers = ["", *map(str, range(2, len(rows) + 1))]
    axes = {"xaxis": axis(**x, anchor=f"y{numbers[-1]}")}
    traces, shapes, annotations = list(key), list[FigurePart](), list[FigurePart]()
    for index, (number, row) in enumerate(zip(numbers, rows, strict=True)):
        top = 1 - index * (height + gap) - gap
        axes[f"yaxis{number}"] = axis(**y, domain=[max(0.0, top - height), top], anchor="x")
        traces += [trace | {"xaxis": "x", "yaxis": f"y{number}"} for trace in row.traces]
        within = {"xref": "x", "yref": f"y{number} domain"}
        shapes += [within | {"type": "line", "y0": 0, "y1": 1} | shape for shape in row.shapes]
        caption = {"text": escape(row.caption), "x": 0, "xref": "x domain", "xanchor": "left"}
        above = within | {"showarrow": False, "y": 1, "yanchor": "bottom"}
        annotations += [above | note for note in (caption, *row.annotations)]
    height_px = row_px * len(rows) + room_px
    return drawn(traces, height=height_px, shapes=shapes, annotations=annotations, **axes, **layout)


def axis(title: str = "", **more: Any) -> FigurePart:
    """Return an axis that is not dragged, with a faint grid."""
    lines = dict.fromkeys(("gridcolor", "zerolinecolor", "linecolor", "tickcolor"), GRID)
    label = {"text": title, "font": {"size": 12}, "standoff": 8}
    return {"fixedrange": True, "automargin": True, "title": label, **lines} | more


def integer_range(least: int, most: int) -> FigurePart:
    """Return the range of an axis of whole numbers; without ticks between them where they are
    few."""
    return {"range": [least - 0.6, most + 0.6]} | ({"dtick": 1} if most - least < 8 else {})


def bars(x: Sequence[Any], y: Sequence[Any], marker: FigurePart, **more: Any) -> FigurePart:
    """Return a trace of bars."""
    return {"type": "bar", "x": x, "y": y, "marker": marker} | more


def filled(colour: str, hatch: str = "") -> FigurePart:
    """Return the marker of a bar; hatched, it can be distinguished without its colour."""
    pattern = {
        "shape": hatch,
        "fillmode": "overlay",
        "fgcolor": "#FFFFFF",
        "fgopacity": 0.6,
        "size": 6,
    }
    return {"color": colour, "line": {"width": 0}} | ({"pattern": pattern} if hatch else {})


def plotly_text(piece: str) -> str:
    """Plotly reads a subset of HTML in its texts: nothing of a piece may be markup, or a ``%{`` of
    a template."""
    return escape(visible(piece)).replace("%{", "% {")
