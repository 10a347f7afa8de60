"""The margin of every emitted token as a heatmap in rows of 32: one map a run, all on one scale. No gradio, no store."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from evaluation.format import number, plural, share
from mars_core.types import Outcome, Token, Trace
from ui.figures.plot import Data, Plot, Run
from ui.figures.style import INK, axis, drawn, plotly_text
from ui.kit.palette import DECISIVE, NEAR_TIE, NEUTRAL

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
    """What the heatmaps of all runs share. ``border``: the margin from which a rule may forgive; ``first``: their upper row."""

    name: str  # "r" or "e^−gap"
    border: float
    caption: str
    low: float
    high: float
    first: int = 0


@dataclass(frozen=True, slots=True)
class MarginData:
    cells: tuple[Cell, ...]
    scale: Scale
    diverges: int | None

    @property
    def rows(self) -> int:
        """From the upper row of all runs to the last of this one."""
        return max((cell.position // ROW for cell in self.cells), default=self.scale.first) - self.scale.first + 1

    def place(self, position: int) -> tuple[int, int]:
        """Column and row of an output position: the same in every run."""
        return position % ROW, position // ROW - self.scale.first


def margin_scale(traces: Sequence[Trace]) -> Scale:
    """One scale for all runs: r with its θ; e^−gap where the only relaxed rule judges the gap."""
    given = [trace.config.rule.parameters for trace in traces if trace.config.rule.name.startswith("mars")]
    thetas = [values["theta"] for values in given if "theta" in values]
    gaps = [values["gap"] for values in given if "gap" in values]
    by_gap = bool(gaps) and not thetas
    border = math.exp(-gaps[-1]) if by_gap else (thetas[-1] if thetas else DEFAULT_THETA)
    name = "e^−gap" if by_gap else "r"
    caption = f"g = {gaps[-1]:g}" if by_gap else f"θ = {border:g}"
    margins = [value for trace in traces for token in trace.tokens if not math.isnan(value := margin(token, name))]
    low = max(0.0, math.floor(10 * min([*margins, border - 0.1])) / 10)
    first = min((trace.tokens[0].position // ROW for trace in traces if trace.tokens), default=0)
    return Scale(name, border, caption, low, 1.0, first)


def margin(token: Token, name: str) -> float:
    """On the quantity of a scale; nan where the ratio has no value."""
    return token.r if name == "r" else math.exp(-token.gap)


def margin_data(trace: Trace, scale: Scale, diverges: int | None = None) -> MarginData:
    """The margins of one run on the shared scale. A place with z₁ ≤ 0 has no ratio: it counts as decisive."""
    cells = tuple(
        Cell(token.position, _clip(margin(token, scale.name), scale), token.outcome, _hover(token))
        for token in trace.tokens
    )
    shown = diverges if any(cell.position == diverges for cell in cells) else None
    return MarginData(cells, scale, shown)


def margin_plot(run: Run, scale: Scale, diverges: int | None = None) -> Plot:
    data = margin_data(run.trace, scale, diverges)
    near = sum(cell.margin > scale.border for cell in data.cells)
    words = f"{near} of {plural(len(data.cells), 'token')} with {scale.name} above {scale.border:.3g}"
    return Plot(margin_figure(data, run.lane), _numbers(run.trace), f"{run.label}: {words}")


_HEADS = ("position", "step", "outcome", "token_id", "piece", "r", "gap", "rank", "p", "q", "tv")


def _numbers(trace: Trace) -> Data:
    rows = (
        (t.position, t.step, t.outcome.value, t.id, t.piece, t.r, t.gap, t.rank, t.p, t.q, t.tv) for t in trace.tokens
    )
    return Data(_HEADS, tuple(rows))


def margin_figure(data: MarginData, lane: int = 0) -> go.Figure:
    """A heatmap in rows of 32 tokens; outcome marked by shape, θ on the colour bar, the first difference framed."""
    marks = [_marks(data, outcome) for outcome in (Outcome.RELAXED, Outcome.RECOVERED, Outcome.BONUS)]
    rows, first = data.rows, data.scale.first
    every = max(1, rows // 16)  # rows between two ticks
    ticks = list(range(0, rows, every))
    shown = {"showgrid": False, "zeroline": False, "ticks": ""}
    return drawn(
        [_heatmap(data, lane), *marks],
        height=CELL_PX * max(rows, LEAST_ROWS) + 78,
        margin={"l": 44, "r": 12, "t": 36, "b": 42},
        xaxis=axis(range=[-0.5, ROW - 0.5], tickvals=[0, 8, 16, 24, 31], **shown),
        yaxis=axis(
            range=[max(rows, LEAST_ROWS) - 0.5, -0.5], tickvals=ticks, ticktext=[str(ROW * (first + row)) for row in ticks], **shown
        ),
        shapes=_frame(data),
    )  # fmt: skip


def _heatmap(data: MarginData, lane: int) -> dict[str, Any]:
    scale = data.scale
    z: list[list[float | None]] = [[None] * ROW for _ in range(data.rows)]
    hover: list[list[Sequence[str]]] = [[()] * ROW for _ in range(data.rows)]
    for cell in data.cells:
        x, y = data.place(cell.position)
        z[y][x] = round(cell.margin, 4)
        hover[y][x] = (*cell.hover, str(cell.position))
    return {
        "type": "heatmap", "z": z, "customdata": hover, "zmin": scale.low, "zmax": scale.high, "colorscale": _colours(scale),
        "xgap": 1.5, "ygap": 1.5, "hoverongaps": False, "hovertemplate": _HOVER, "meta": {"lane": lane, "position": 10},
        "colorbar": {
            "thickness": 10, "len": 1.0, "y": 0.5, "outlinewidth": 0, "tickfont": {"size": 11, "color": NEUTRAL},
            "tickvals": _ticks(scale), "ticktext": _tick_texts(scale), "title": {"text": scale.name, "side": "top"}, "xpad": 6,
        },
    }  # fmt: skip


_HOVER = (
    "<b>%{customdata[0]}</b>  %{customdata[1]}, position %{customdata[10]}<br>"
    "r %{customdata[2]}   gap %{customdata[3]}   rank %{customdata[4]}<br>"
    "p %{customdata[5]}   q %{customdata[6]}   TV %{customdata[7]}<br>"
    "%{customdata[8]}<br>covered %{customdata[9]}<extra></extra>"
)


def _hover(token: Token) -> tuple[str, ...]:
    top = "<br>".join([f"{number(p)}  {plotly_text(piece)}" for _, piece, p in token.top])
    covered = share(math.fsum([p for _, _, p in token.top]))
    first = number(token.r), number(token.gap), str(token.rank)
    second = number(token.p), number(token.q), number(token.tv)
    return plotly_text(token.piece), token.outcome.value, *first, *second, top, covered


def _clip(value: float, scale: Scale) -> float:
    return scale.low if math.isnan(value) else min(scale.high, max(scale.low, value))


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


def _marks(data: MarginData, outcome: Outcome) -> dict[str, Any]:
    chosen = [data.place(cell.position) for cell in data.cells if cell.outcome is outcome]
    return {
        "type": "scatter", "x": [x for x, _ in chosen], "y": [y for _, y in chosen], "mode": "markers", "name": outcome.value,
        "marker": _MARKS[outcome], "hoverinfo": "skip", "showlegend": True,
    }  # fmt: skip


def _frame(data: MarginData) -> list[dict[str, Any]]:
    """Around the token with which the run leaves the left one."""
    if data.diverges is None:
        return []
    x, y = data.place(data.diverges)
    box = {"type": "rect", "x0": x - 0.5, "x1": x + 0.5, "y0": y - 0.5, "y1": y + 0.5}
    return [box | {"line": {"color": "#FFFFFF", "width": 5}}, box | {"line": {"color": INK, "width": 2}}]
