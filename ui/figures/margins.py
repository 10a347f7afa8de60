"""The margin of every emitted token as a heatmap in rows of 32: one map a run, all on one scale. No
gradio, no store."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from display.format import number, plural, share
from display.palette import DECISIVE, NEAR_TIE, NEUTRAL
from display.plot import INK, Data, FigurePart, Plot, axis, drawn, plotly_text
from mars_core.types import Outcome, Token
from ui.figures.runs import ROW, PlottedRun, Scale, margin

CELL_PX = 18
LEAST_ROWS = 4  # so that the colour bar has room for its ticks
HEADS = ("position", "step", "outcome", "token_id", "piece", "r", "gap", "rank", "p", "q", "tv")
RELAXED: FigurePart = {
    "symbol": "diamond",
    "size": 9,
    "color": INK,
    "line": {"color": "#FFFFFF", "width": 1.4},
}
_HOVER = (
    "<b>%{customdata[0]}</b>  %{customdata[1]}, position %{customdata[10]}<br>"
    "r %{customdata[2]}   gap %{customdata[3]}   rank %{customdata[4]}<br>"
    "p %{customdata[5]}   q %{customdata[6]}   TV %{customdata[7]}<br>"
    "%{customdata[8]}<br>covered %{customdata[9]}<extra></extra>"
)


def margin_plot(run: PlottedRun, scale: Scale, diverges: int | None = None) -> Plot:
    """Draw a heatmap in rows of 32 tokens; relaxed ones marked, θ on the colour bar, the first
    difference framed."""
    tokens = run.trace.tokens
    cells = {token.position: scale.clipped(margin(token, scale.name)) for token in tokens}
    rows = max((scale.grid_cell(position)[1] for position in cells), default=0) + 1
    ticks = list(range(0, rows, max(1, rows // 16)))
    plain: FigurePart = {"showgrid": False, "zeroline": False, "ticks": ""}
    names = [str(ROW * (scale.first + row)) for row in ticks]
    figure = drawn(
        [_heatmap(run, scale, cells, rows), _relaxed(tokens, scale)],
        height=CELL_PX * max(rows, LEAST_ROWS) + 30,
        margin={"l": 36, "r": 8, "t": 10, "b": 20},
        showlegend=False,
        xaxis=axis(
            range=[-0.5, scale.columns - 0.5],
            tickvals=[at for at in (0, 8, 16, 24, 31) if at < scale.columns],
            **plain,
        ),
        yaxis=axis(
            range=[max(rows, LEAST_ROWS) - 0.5, -0.5], tickvals=ticks, ticktext=names, **plain
        ),
        shapes=_frame(*scale.grid_cell(diverges))
        if diverges in cells and diverges is not None
        else [],
    )
    numbers = [
        (t.position, t.step, t.outcome.value, t.id, t.piece, t.r, t.gap, t.rank, t.p, t.q, t.tv)
        for t in tokens
    ]
    near = sum(value > scale.border for value in cells.values())
    words = f"{near} of {plural(len(cells), 'token')} with {scale.name} above {scale.border:.3g}"
    relaxed = "  ◆ relaxed" if any(token.outcome is Outcome.RELAXED for token in tokens) else ""
    return Plot(figure, Data(HEADS, numbers), f"{run.label}: {words}{relaxed}")


def _heatmap(run: PlottedRun, scale: Scale, cells: Mapping[int, float], rows: int) -> FigurePart:
    z: list[list[float | None]] = [[None] * scale.columns for _ in range(rows)]
    hover: list[list[Sequence[str]]] = [[()] * scale.columns for _ in range(rows)]
    greedy = run.trace.config.sampling.temperature == 0
    for token in run.trace.tokens:
        x, y = scale.grid_cell(token.position)
        z[y][x] = round(cells[token.position], 4)
        hover[y][x] = (*_hover(token, greedy=greedy), str(token.position))
    ticks = {scale.low: f"{scale.low:g}", scale.border: f"<b>{scale.caption(scale.border)}</b>"}
    if scale.border < 1 - 0.35 * (1 - scale.low):
        ticks[1.0] = "1"
    return {
        "type": "heatmap",
        "z": z,
        "customdata": hover,
        "zmin": scale.low,
        "zmax": 1,
        "colorscale": _colours(scale),
        "xgap": 1.5,
        "ygap": 1.5,
        "hoverongaps": False,
        "hovertemplate": _HOVER,
        "meta": {"lane": run.lane, "position": 10},
        "colorbar": {
            "thickness": 10,
            "len": 1.0,
            "y": 0.5,
            "outlinewidth": 0,
            "tickfont": {"size": 11, "color": NEUTRAL},
            "tickvals": list(ticks),
            "ticktext": list(ticks.values()),
            "title": {"text": scale.name, "side": "top"},
            "xpad": 6,
        },
    }


def _hover(token: Token, *, greedy: bool) -> tuple[str, ...]:
    top = "<br>".join([f"{number(p)}  {plotly_text(piece)}" for _, piece, p in token.top])
    covered = share(math.fsum([p for _, _, p in token.top]))
    first = number(token.r), number(token.gap), str(token.rank)
    second = number(token.displayed_p(greedy=greedy)), number(token.q), number(token.tv)
    return plotly_text(token.piece), token.outcome.value, *first, *second, top, covered


def _colours(scale: Scale) -> list[tuple[float, str]]:
    """Violet up to the border, orange above it: the colours part exactly at θ."""
    border = min(0.995, max(0.005, (scale.border - scale.low) / (1 - scale.low)))
    return [
        (round(low + (high - low) * at / (len(colours) - 1), 6), colour)
        for low, high, colours in ((0, border, DECISIVE), (border, 1, NEAR_TIE))
        for at, colour in enumerate(colours)
    ]


def _relaxed(tokens: Sequence[Token], scale: Scale) -> FigurePart:
    chosen = [scale.grid_cell(each.position) for each in tokens if each.outcome is Outcome.RELAXED]
    return {
        "type": "scatter",
        "mode": "markers",
        "marker": RELAXED,
        "name": "relaxed",
        "x": [x for x, _ in chosen],
        "y": [y for _, y in chosen],
        "hoverinfo": "skip",
    }


def _frame(x: int, y: int) -> list[FigurePart]:
    """Draw a frame around the token with which the run leaves the left one."""
    box = {"type": "rect", "x0": x - 0.5, "x1": x + 0.5, "y0": y - 0.5, "y1": y + 0.5}
    return [
        box | {"line": {"color": "#FFFFFF", "width": 5}},
        box | {"line": {"color": INK, "width": 2}},
    ]
