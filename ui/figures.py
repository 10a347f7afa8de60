"""Plotly figures of traces, each as a data half (plain values) and a drawing half (values to figure). No gradio, no store."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

import plotly.graph_objects as go

from mars_core.types import Outcome, Step, Token, Trace
from ui.figure_style import INK, plotly_text, style
from ui.format import number, share
from ui.labels import lane_label
from ui.palette import DECISIVE, GRID, LANES, NEAR_TIE, NEUTRAL, OUTCOME_STYLES

ROW = 32  # tokens in a row of the heatmap
CELL_PX = 24
LEAST_ROWS = 4  # so that the colour bar has room for its ticks
DEFAULT_THETA = 0.9


@dataclass(frozen=True, slots=True)
class Cell:
    """One emitted token in the heatmap: its margin and what hover says. ``margin`` 0 to 1, near 1 is a near tie."""

    position: int
    margin: float
    outcome: Outcome
    hover: tuple[str, ...]  # piece, outcome, r, gap, rank, p, q, TV, top-5, covered


@dataclass(frozen=True, slots=True)
class Scale:
    """The colour scale that both heatmaps share. ``border``: the margin from which a rule may forgive."""

    name: str  # "r" or "e^−gap"
    border: float
    caption: str
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class MarginData:
    cells: tuple[Cell, ...]
    scale: Scale
    diverges: int | None


def margin_scale(traces: Sequence[Trace]) -> Scale:
    """One scale for all runs: r with its θ; e^−gap where the only relaxed rule judges the gap."""
    given = [trace.config.rule.parameters for trace in traces if trace.config.rule.name.startswith("mars")]
    thetas = [values["theta"] for values in given if "theta" in values]
    gaps = [values["gap"] for values in given if "gap" in values]
    by_gap = bool(gaps) and not thetas
    border = math.exp(-gaps[-1]) if by_gap else (thetas[-1] if thetas else DEFAULT_THETA)
    name = "e^−gap" if by_gap else "r"
    caption = f"g = {gaps[-1]:g}" if by_gap else f"θ = {border:g}"
    margins = [value for trace in traces for token in trace.tokens if not math.isnan(value := _margin(token, name))]
    low = max(0.0, math.floor(10 * min([*margins, border - 0.1])) / 10)
    return Scale(name, border, caption, low, 1.0)


def margin_data(trace: Trace, scale: Scale, diverges: int | None = None) -> MarginData:
    """The margins of one run on the shared scale. A place with z₁ ≤ 0 has no ratio: it counts as decisive."""
    cells = tuple(
        Cell(token.position, _clip(_margin(token, scale.name), scale), token.outcome, _hover(token))
        for token in trace.tokens
    )
    return MarginData(cells, scale, diverges)


def margin_figure(data: MarginData) -> go.Figure:
    """A heatmap in rows of 32 tokens; outcome marked by shape, θ on the colour bar, the first difference framed."""
    figure = go.Figure(_heatmap(data))
    for outcome in (Outcome.RELAXED, Outcome.RECOVERED, Outcome.BONUS):
        figure.add_trace(_marks(data.cells, outcome))
    if data.diverges is not None:
        _frame(figure, data.diverges)
    rows = max(1, math.ceil(len(data.cells) / ROW))
    style(figure, height=CELL_PX * max(rows, LEAST_ROWS) + 78)
    figure.update_xaxes(
        range=[-0.5, ROW - 0.5], tickvals=[0, 8, 16, 24, 31], ticks="", showgrid=False, zeroline=False, fixedrange=True
    )
    figure.update_yaxes(
        range=[max(rows, LEAST_ROWS) - 0.5, -0.5], tickvals=list(range(rows)), ticktext=[str(ROW * row) for row in range(rows)],
        showgrid=False, zeroline=False, ticks="", fixedrange=True,
    )  # fmt: skip
    return figure


def _heatmap(data: MarginData) -> go.Heatmap:
    scale, rows = data.scale, max(1, math.ceil(len(data.cells) / ROW))
    z: list[list[float | None]] = [[None] * ROW for _ in range(rows)]
    hover: list[list[Sequence[str]]] = [[("",) * 10] * ROW for _ in range(rows)]
    for index, cell in enumerate(data.cells):
        z[index // ROW][index % ROW] = round(cell.margin, 4)
        hover[index // ROW][index % ROW] = (*cell.hover, str(cell.position))
    return go.Heatmap(
        z=z, customdata=hover, zmin=scale.low, zmax=scale.high, colorscale=_colours(scale), xgap=1.5, ygap=1.5,
        hoverongaps=False, hovertemplate=_HOVER,
        colorbar={
            "thickness": 10, "len": 1.0, "y": 0.5, "outlinewidth": 0, "tickfont": {"size": 11, "color": NEUTRAL},
            "tickvals": _ticks(scale), "ticktext": _tick_texts(scale), "title": {"text": scale.name, "side": "top"}, "xpad": 6,
        },
    )  # fmt: skip


_HOVER = (
    "<b>%{customdata[0]}</b>  %{customdata[1]}, position %{customdata[10]}<br>"
    "r %{customdata[2]}   gap %{customdata[3]}   rank %{customdata[4]}<br>"
    "p %{customdata[5]}   q %{customdata[6]}   TV %{customdata[7]}<br>"
    "%{customdata[8]}<br>covered %{customdata[9]}<extra></extra>"
)


def _hover(token: Token) -> tuple[str, ...]:
    top = "<br>".join(f"{number(a.p)}  {plotly_text(a.piece)}" for a in token.top)
    covered = share(math.fsum(a.p for a in token.top))
    values = (token.r, token.gap), (token.p, token.q, token.tv)
    first, second = (tuple(map(number, group)) for group in values)
    return plotly_text(token.piece), token.outcome.value, *first, str(token.rank), *second, top, covered


def _margin(token: Token, name: str) -> float:
    return token.r if name == "r" else math.exp(-token.gap)


def _clip(margin: float, scale: Scale) -> float:
    return scale.low if math.isnan(margin) else min(scale.high, max(scale.low, margin))


def _colours(scale: Scale) -> list[tuple[float, str]]:
    """Violet up to the border, orange above it: the colours part exactly at θ."""
    border = min(0.995, max(0.005, (scale.border - scale.low) / (scale.high - scale.low)))
    below = [(round(border * i / (len(DECISIVE) - 1), 6), colour) for i, colour in enumerate(DECISIVE)]
    above = [(round(border + (1 - border) * i / (len(NEAR_TIE) - 1), 6), colour) for i, colour in enumerate(NEAR_TIE)]
    return [*below, *above]


def _ticks(scale: Scale) -> list[float]:
    return [
        scale.low,
        scale.border,
        *([scale.high] if scale.border < scale.high - 0.35 * (scale.high - scale.low) else []),
    ]


def _tick_texts(scale: Scale) -> list[str]:
    return [f"{scale.low:g}", f"<b>{scale.caption}</b>", f"{scale.high:g}"][: len(_ticks(scale))]


_MARKS: Mapping[Outcome, Mapping[str, object]] = {
    Outcome.RELAXED: {"symbol": "diamond", "size": 9, "color": INK, "line": {"color": "#FFFFFF", "width": 1.4}},
    Outcome.RECOVERED: {"symbol": "circle", "size": 6, "color": "#FFFFFF", "line": {"color": INK, "width": 1}},
    Outcome.BONUS: {"symbol": "square", "size": 4, "color": "#FFFFFF", "line": {"color": INK, "width": 1}},
}


def _marks(cells: Sequence[Cell], outcome: Outcome) -> go.Scatter:
    chosen = [(i % ROW, i // ROW) for i, cell in enumerate(cells) if cell.outcome is outcome]
    return go.Scatter(
        x=[x for x, _ in chosen], y=[y for _, y in chosen], mode="markers", name=outcome.value, marker=_MARKS[outcome],
        hoverinfo="skip", showlegend=True,
    )  # fmt: skip


def _frame(figure: go.Figure, position: int) -> None:
    x, y = position % ROW, position // ROW
    box = {"type": "rect", "x0": x - 0.5, "x1": x + 0.5, "y0": y - 0.5, "y1": y + 0.5}
    figure.add_shape(**box, line={"color": "#FFFFFF", "width": 5})
    figure.add_shape(**box, line={"color": INK, "width": 2})


@dataclass(frozen=True, slots=True)
class AcceptanceData:
    """Share of steps that kept a token at each depth of the draft: ``accepted`` as by strict, ``relaxed`` by forgiveness.

    ``offered``: how many steps drafted that deep.
    """

    label: str
    accepted: tuple[float, ...]
    relaxed: tuple[float, ...]
    offered: tuple[int, ...]
    lane: int = 0


def acceptance_data(trace: Trace, lane: int = 0) -> AcceptanceData:
    """Steps that kept a token at depth i / steps that drafted one there, split by why it was kept."""
    longest = max((node.depth for step in trace.steps for node in step.nodes), default=0)
    places = range(1, longest + 1)
    offered = tuple(sum(any(node.depth == place for node in step.nodes) for step in trace.steps) for place in places)
    accepted = tuple(_kept(trace.steps, place, Outcome.ACCEPTED) for place in places)
    relaxed = tuple(_kept(trace.steps, place, Outcome.RELAXED) for place in places)
    return AcceptanceData(
        lane_label(trace.config),
        tuple(part / whole for part, whole in zip(accepted, offered, strict=True)),
        tuple(part / whole for part, whole in zip(relaxed, offered, strict=True)),
        offered,
        lane,
    )


def _kept(steps: Sequence[Step], place: int, outcome: Outcome) -> int:
    return sum(token.draft_position == place and token.outcome is outcome for step in steps for token in step.emitted)


def acceptance_figure(lanes: Sequence[AcceptanceData]) -> go.Figure:
    """Bars per depth of the draft, the runs side by side; the forgiven part stacked and hatched."""
    figure = go.Figure()
    relaxed = OUTCOME_STYLES[Outcome.RELAXED]
    for index, lane in enumerate(lanes):
        places = [str(place) for place in range(1, len(lane.offered) + 1)]
        common = {"x": places, "offsetgroup": str(index), "customdata": lane.offered}
        name = escape(lane.label)
        figure.add_bar(
            y=lane.accepted, name=f"{name}: accepted", marker_color=LANES[lane.lane % len(LANES)],
            hovertemplate=f"{name}<br>accepted %{{y:.1%}} of %{{customdata}} steps<extra></extra>", **common,
        )  # fmt: skip
        if any(lane.relaxed):
            figure.add_bar(
                y=lane.relaxed, base=lane.accepted, name=f"{name}: relaxed", marker_color=relaxed.light,
                marker_pattern={"shape": "/", "fillmode": "overlay", "fgcolor": "#FFFFFF", "fgopacity": 0.55, "size": 7, "solidity": 0.2},
                hovertemplate=f"{name}<br>relaxed %{{y:.1%}} of %{{customdata}} steps<extra></extra>", **common,
            )  # fmt: skip
    style(figure, height=360)
    figure.update_layout(barmode="group", bargap=0.35, bargroupgap=0.08)
    figure.update_xaxes(title="depth in the draft", showgrid=False, fixedrange=True)
    figure.update_yaxes(
        title="kept", tickformat=".0%", range=[0, 1.02], gridcolor=GRID, zerolinecolor=GRID, fixedrange=True
    )
    return figure
