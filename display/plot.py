"""What a figure is to the page, and what figures share: fonts, axes, legends, text that cannot
become markup.

A figure is drawn in the colours of the light page; the page replaces them by those of the theme
(``THEMED``) and sets captions, grid and ground itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import plotly.graph_objects as go

from display.format import visible
from display.palette import GRID, NEUTRAL, OUTCOME_STYLES

PointValue = str | float | int | None  # None and nan: an empty cell
FigurePart = dict[str, Any]  # of a Plotly figure: a trace, a marker, a shape, an annotation
INK = "#15171C"  # marks on coloured cells: the same in both themes
TEXT = "#1B1E24"  # labels on the ground
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
    | {TEXT: "--body-text-color"}
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


def axis(title: str = "", **more: Any) -> FigurePart:
    """Return an axis that is not dragged, with a faint grid."""
    lines = dict.fromkeys(("gridcolor", "zerolinecolor", "linecolor", "tickcolor"), GRID)
    label = {"text": title, "font": {"size": 12}, "standoff": 8}
    return {"fixedrange": True, "automargin": True, "title": label, **lines} | more


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
