"""What a figure is to the page, and what figures share: fonts, axes, rows, legends, the scale of
margins, text that cannot become markup.

A figure is drawn in the colours of the light page; the page replaces them by those of the theme
(``THEMED``) and sets captions, grid and ground itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

import plotly.graph_objects as go

from evaluation.format import visible
from mars_core.rules import RULES
from mars_core.types import Token, Trace, numbers
from ui.kit.palette import GRID, LANES, NEUTRAL, OUTCOME_STYLES

PointValue = str | float | int | None  # None and nan: an empty cell
FigurePart = dict[str, Any]  # of a Plotly figure: a trace, a marker, a shape, an annotation
INK = "#15171C"  # marks on coloured cells: the same in both themes
TEXT = "#1B1E24"  # labels on the ground
FAINT = "#A9AEB8"  # opaque lines that may lie on each other
ROW, LEAST_COLUMNS = 32, 8  # tokens in a row of a heatmap, and places in that of a short text
DEFAULT_THETA = 0.9
GAP = "e^−gap"
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


class PlottedRun(NamedTuple):
    """A run, the lane it stands in, and a name that no other run of its comparison has."""

    trace: Trace
    lane: int
    label: str

    @property
    def colour(self) -> str:
        return LANES[self.lane % len(LANES)]


@dataclass(frozen=True, slots=True)
class Data:
    """The numbers of a figure as its CSV has them: raw, unrounded, one head a column. Texts as they
    are: nothing is escaped."""

    heads: tuple[str, ...]
    rows: Sequence[tuple[PointValue, ...]]


def by_run(
    heads: Sequence[str], runs: Iterable[tuple[PlottedRun, Iterable[Sequence[PointValue]]]]
) -> Data:
    """The rows of every run, each after its lane and rule."""
    return Data(
        ("lane", "rule", *heads),
        [(run.lane + 1, run.label, *row) for run, rows in runs for row in rows],
    )


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
    """A figure of traces as plain mappings, over the layout that all share. Not validated: that
    costs twenty times the rest. Tests validate every figure."""
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
    """An axis that is not dragged, with a faint grid."""
    lines = dict.fromkeys(("gridcolor", "zerolinecolor", "linecolor", "tickcolor"), GRID)
    label = {"text": title, "font": {"size": 12}, "standoff": 8}
    return {"fixedrange": True, "automargin": True, "title": label, **lines} | more


def integer_range(least: int, most: int) -> FigurePart:
    """The range of an axis of whole numbers; without ticks between them where they are few."""
    return {"range": [least - 0.6, most + 0.6]} | ({"dtick": 1} if most - least < 8 else {})


def bars(x: Sequence[Any], y: Sequence[Any], marker: FigurePart, **more: Any) -> FigurePart:
    return {"type": "bar", "x": x, "y": y, "marker": marker} | more


def filled(colour: str, hatch: str = "") -> FigurePart:
    """The marker of a bar; hatched, it can be distinguished without its colour."""
    pattern = {
        "shape": hatch,
        "fillmode": "overlay",
        "fgcolor": "#FFFFFF",
        "fgopacity": 0.6,
        "size": 6,
    }
    return {"color": colour, "line": {"width": 0}} | ({"pattern": pattern} if hatch else {})


def legend(markers: Mapping[str, FigurePart]) -> list[FigurePart]:
    """The legend of a figure whose bars stand in rows: name → marker, each once."""
    return [
        bars([None], [None], marker, name=name, hoverinfo="skip")
        for name, marker in markers.items()
    ]


def plotly_text(piece: str) -> str:
    """Plotly reads a subset of HTML in its texts: nothing of a piece may be markup, or a ``%{`` of
    a template."""
    return escape(visible(piece)).replace("%{", "% {")


class Scale(NamedTuple):
    """What the heatmaps of all runs share. ``border``: the margin from which a rule may relax;
    ``first``: their upper row; ``columns``: tokens in a row."""

    name: str  # "r" or GAP
    border: float
    caption: str
    low: float
    high: float
    first: int = 0
    columns: int = ROW

    @property
    def title(self) -> str:
        return "r = z₂/z₁" if self.name == "r" else GAP

    @property
    def column(self) -> str:
        """The quantity as a CSV names it."""
        return "r" if self.name == "r" else "exp_minus_gap"

    def grid_cell(self, position: int) -> tuple[int, int]:
        """Column and row of an output position: the same in every run."""
        return position % ROW, position // ROW - self.first


def rule_border(trace: Trace, name: str) -> float | None:
    """θ of a run on a scale, if its rule has one there."""
    rule = RULES.get(trace.config.rule.name)
    parameters = numbers(trace.config.rule.parameters) if rule and rule.room else {}
    if name == "r":
        return parameters.get("theta")
    return math.exp(-parameters["gap"]) if "gap" in parameters else None


def margin_scale(traces: Sequence[Trace]) -> Scale:
    """One scale for all runs: r with its θ; e^−gap where the only relaxed rule judges the gap."""
    thetas, gaps = (
        [b for trace in traces if (b := rule_border(trace, name)) is not None]
        for name in ("r", GAP)
    )
    name = GAP if gaps and not thetas else "r"
    border = [DEFAULT_THETA, *(gaps if name == GAP else thetas)][-1]
    caption = f"g = {-math.log(border):g}" if name == GAP else f"θ = {border:g}"
    margins = [
        value
        for trace in traces
        for token in trace.tokens
        if not math.isnan(value := margin(token, name))
    ]
    low = max(0.0, math.floor(10 * min([*margins, border - 0.1])) / 10)
    first = min((trace.tokens[0].position // ROW for trace in traces if trace.tokens), default=0)
    last = max((trace.tokens[-1].position for trace in traces if trace.tokens), default=0)
    columns = last % ROW + 1 if last // ROW == first else ROW
    return Scale(name, border, caption, low, 1.0, first, max(LEAST_COLUMNS, columns))


def margin(token: Token, name: str) -> float:
    """On the quantity of a scale, 0 to 1, near 1 a near tie; nan where the ratio has no value."""
    return token.r if name == "r" else math.exp(-token.gap)
