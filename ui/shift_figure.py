"""The shift at every position as a figure: one row of bars a run, on one scale. Values in, figure out. No gradio, no store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from mars_core.types import Trace
from ui.figure_style import plotly_text, style
from ui.format import number
from ui.labels import lane_label
from ui.palette import GRID, LANES, NEUTRAL

ROW_PX = 92


@dataclass(frozen=True, slots=True)
class ShiftData:
    """TV at every output position of one run; ``hover``: piece, TV, KL."""

    label: str
    lane: int
    tv: tuple[float, ...]
    hover: tuple[tuple[str, str, str], ...]


def shift_data(trace: Trace, lane: int) -> ShiftData:
    tokens = trace.tokens
    return ShiftData(
        lane_label(trace.config),
        lane,
        tuple(round(token.tv, 6) for token in tokens),
        tuple((plotly_text(token.piece), number(token.tv), number(token.kl)) for token in tokens),
    )


def shift_figure(lanes: Sequence[ShiftData]) -> go.Figure:
    """All runs on the scale of the largest TV, so that a run that shifts nothing is an empty row."""
    figure = make_subplots(rows=len(lanes), cols=1, shared_xaxes=True, vertical_spacing=0.26 / len(lanes))
    top = max([0.01, *(value for lane in lanes for value in lane.tv)])
    hover = "<b>%{customdata[0]}</b>  position %{x}<br>TV %{customdata[1]}   KL %{customdata[2]}"
    for row, lane in enumerate(lanes, start=1):
        name = escape(lane.label)
        figure.add_bar(
            y=lane.tv, customdata=lane.hover, marker_color=LANES[lane.lane % len(LANES)], marker_line_width=0, name=name,
            hovertemplate=f"{hover}<extra>{name}</extra>",
            showlegend=False, row=row, col=1,
        )  # fmt: skip
    style(figure, height=ROW_PX * len(lanes) + 66)
    figure.update_layout(
        bargap=0.15, annotations=[_caption(lane.label, row) for row, lane in enumerate(lanes, start=1)]
    )
    figure.update_yaxes(
        range=[0, 1.06 * top], nticks=3, gridcolor=GRID, zerolinecolor=NEUTRAL, zerolinewidth=1, fixedrange=True
    )
    figure.update_xaxes(showgrid=False, zeroline=False, fixedrange=True)
    figure.update_xaxes(title="position", row=len(lanes), col=1)
    return figure


def _caption(label: str, row: int) -> dict[str, Any]:
    """The name of a row at its upper left."""
    axis = "" if row == 1 else str(row)
    return {
        "text": f"{escape(label)}, TV", "showarrow": False, "x": 0, "y": 1, "xref": f"x{axis} domain", "yref": f"y{axis} domain",
        "xanchor": "left", "yanchor": "bottom",
    }  # fmt: skip
