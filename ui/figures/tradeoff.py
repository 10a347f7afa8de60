"""The trade-off chart of a sweep: speed-up over strict against what it costs, with the Pareto front and the paper's speeds.

The paper gives no divergence and no TV, so its points stand in a strip of their own on the right: only their height can be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from evaluation.format import number, ratio
from evaluation.study.plan import Plan
from evaluation.study.points import Cost, Point
from ui.figures.plot import Plot
from ui.figures.style import axis, drawn, plotly_text
from ui.figures.tradeoff_data import (
    COSTS,
    PUBLISHED,
    PUBLISHED_SETTING,
    Mark,
    TradeoffData,
    tradeoff_data,
    tradeoff_numbers,
    tradeoff_title,
)
from ui.kit.palette import LANES, NEUTRAL

SYMBOLS = ("circle", "square", "triangle-up", "cross", "pentagon", "hexagon2", "star-triangle-up", "hourglass")
PAPER_SYMBOL = "diamond-open"
LABELLED = 12  # points that carry their value as text; with more only those on the front do, hover tells the others
COLOURS = (*LANES[1:], LANES[0])  # grey last: the paper's points are grey
HEIGHT = 440
STRIP = 0.84  # of the width: where the paper's strip begins


def tradeoff_plot(plan: Plan, points: Sequence[Point], cost: Cost) -> Plot | None:
    """The chart with its numbers; None where no setting has both."""
    data = tradeoff_data(plan, points, cost)
    return Plot(tradeoff_figure(data), tradeoff_numbers(data), tradeoff_title(data)) if data.marks else None


def tradeoff_figure(data: TradeoffData) -> go.Figure:
    """Points with quartiles, the front as a line under them, the paper's points in a strip on the right."""
    groups: dict[str, list[Mark]] = {}
    for mark in data.marks:
        groups.setdefault(mark.group, []).append(mark)
    labelled = len(data.marks) <= LABELLED
    traces = [_front(data.front), *(_group(name, marks, labelled) for name, marks in groups.items()), _paper()]
    title = f"{COSTS[data.cost]}{_unit(data.cost)}"
    across = axis(
        title={"text": title}, domain=[0, STRIP - 0.03], tickformat=_ticks(data.cost), **_across(data), zeroline=False
    )
    strip = axis(
        title={"text": "Paper"},
        domain=[STRIP, 1],
        range=[-0.7, 0.7],
        tickvals=[],
        showgrid=False,
        zeroline=False,
        anchor="y",
    )
    up = axis(
        title={"text": "Speed-up over strict"}, ticksuffix="×", tickformat=".3~g", range=_up(data), zeroline=False
    )
    return drawn(
        traces, height=HEIGHT, xaxis=across, xaxis2=strip, yaxis=up, shapes=[_even(), _ground()],
        hovermode="closest", legend=_legend(),
    )  # fmt: skip


def _legend() -> dict[str, Any]:
    fixed = {"itemclick": False, "itemdoubleclick": False, "itemsizing": "constant"}
    return {"orientation": "h", "x": 0, "y": 1.01, "yanchor": "bottom", **fixed}


def _front(marks: Sequence[Mark]) -> dict[str, Any]:
    return {
        "type": "scatter", "mode": "lines+markers", "name": "Pareto front",
        "x": [mark.x for mark in marks], "y": [mark.y for mark in marks],
        "line": {"color": NEUTRAL, "width": 1.5, "dash": "dot"}, "hoverinfo": "skip",
        "marker": {"symbol": "circle-open", "size": 18, "color": NEUTRAL, "line": {"width": 1.5}},
    }  # fmt: skip


def _group(name: str, marks: Sequence[Mark], labelled: bool) -> dict[str, Any]:
    """A click shows the row of the table: ``position`` of the shared figure script is the row here."""
    first = marks[0]
    colour = COLOURS[first.colour % len(COLOURS)]
    symbol = SYMBOLS[(first.shape + first.colour // len(COLOURS)) % len(SYMBOLS)]
    return {
        "type": "scatter", "mode": "markers+text", "name": name,
        "x": [mark.x for mark in marks], "y": [mark.y for mark in marks],
        "text": [mark.label if labelled or mark.best else "" for mark in marks],
        "textposition": "top center", "textfont": {"size": 11, "color": NEUTRAL},
        "customdata": [(*mark.hover, mark.row) for mark in marks], "meta": {"lane": 0, "position": 7},
        "marker": {"color": colour, "symbol": symbol, "size": 10},
        "error_y": {"type": "data", "symmetric": False, "array": [mark.high - mark.y for mark in marks],
                    "arrayminus": [mark.y - mark.low for mark in marks], "color": _faint(colour), "thickness": 1.5, "width": 0},
        "hovertemplate": _HOVER,
    }  # fmt: skip


def _faint(colour: str) -> str:
    """The same colour behind the points."""
    return f"rgba({', '.join(str(int(colour[at : at + 2], 16)) for at in (1, 3, 5))}, 0.45)"


_HOVER = (
    "<b>%{customdata[0]}</b><br>speed-up %{customdata[1]}, %{customdata[2]} pairs<br>"
    "texts differ %{customdata[3]}   TV %{customdata[4]}<br>right %{customdata[5]}<br>%{customdata[6]}<extra></extra>"
)


def _paper() -> dict[str, Any]:
    """Spread over the strip so that near ones stay apart; their places across mean nothing."""
    spread = [0.5 * (place % 3 - 1) for place in range(len(PUBLISHED))]
    texts = [
        (
            plotly_text(entry.target),
            *map(ratio, (entry.speedup, entry.mars, entry.strict)),
            *map(number, (entry.mars_tau, entry.strict_tau)),
        )
        for entry in PUBLISHED
    ]
    return {
        "type": "scatter", "mode": "markers", "name": "Paper: MARS / EAGLE-3", "xaxis": "x2",
        "x": spread, "y": [entry.speedup for entry in PUBLISHED], "customdata": texts,
        "marker": {"color": NEUTRAL, "symbol": PAPER_SYMBOL, "size": 10, "line": {"width": 1.5}},
        "hovertemplate": _PAPER_HOVER,
    }  # fmt: skip


_PAPER_HOVER = (
    "<b>%{customdata[0]}</b>, published<br>MARS %{customdata[2]} / EAGLE-3 %{customdata[3]} = %{customdata[1]}<br>"
    f"τ %{{customdata[4]}} against %{{customdata[5]}}<br>{PUBLISHED_SETTING}<br>no divergence published<extra></extra>"
)


def _up(data: TradeoffData) -> list[float]:
    """The range of speed-ups, the paper's and 1 × included, so that it is the same kind of picture for every sweep. Quartiles far
    off are cut by the border: hover and table have them."""
    values = [1.0, *(entry.speedup for entry in PUBLISHED), *(mark.y for mark in data.marks)]
    low, high = min(values), max(values)
    room = 0.5 * (high - low)
    ends = [end for mark in data.marks for end in (mark.low, mark.high)]
    low, high = min(low, max(low - room, min(ends))), max(high, min(high + room, max(ends)))
    return [low - 0.06 * (high - low), high + 0.1 * (high - low)]


def _across(data: TradeoffData) -> dict[str, Any]:
    values = [0.0, *(mark.x for mark in data.marks)]
    room = 0.07 * ((max(values) - min(values)) or 0.1)
    return {"range": [min(values) - room, max(values) + room]}


def _unit(cost: Cost) -> str:
    return ", percentage points" if cost is Cost.SCORE_LOSS else ", 0 to 1" if cost is Cost.TV else ""


def _ticks(cost: Cost) -> str:
    return ".3~g" if cost is Cost.TV else ".0%"


def _even() -> dict[str, Any]:
    """The line of strict's own speed."""
    return {
        "type": "line", "xref": "paper", "x0": 0, "x1": 1, "yref": "y", "y0": 1, "y1": 1,
        "line": {"color": NEUTRAL, "width": 1, "dash": "dash"},
    }  # fmt: skip


def _ground() -> dict[str, Any]:
    """The ground of the paper's strip."""
    return {
        "type": "rect", "xref": "paper", "x0": STRIP, "x1": 1, "yref": "paper", "y0": 0, "y1": 1,
        "fillcolor": NEUTRAL, "opacity": 0.07, "line": {"width": 0}, "layer": "below",
    }  # fmt: skip
