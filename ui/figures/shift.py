"""The shift at every position, and its sum up to there: how far the law of the emitted text is from the target's. No gradio, no store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate
from typing import Any

import plotly.graph_objects as go

from evaluation.format import number
from mars_core.types import Trace
from ui.figures.plot import Data, Plot, Run
from ui.figures.style import PLAIN, axis, caption, drawn, plotly_text, rows_layout
from ui.kit.labels import lane_label
from ui.kit.palette import LANES

ROW_PX = 92
DASHES = ("solid", "dash", "dot", "dashdot")  # of the lanes: no colour is needed to tell them apart


@dataclass(frozen=True, slots=True)
class ShiftData:
    """TV at every output position of one run from ``first`` on; ``hover``: piece, TV, KL, position."""

    label: str
    lane: int
    tv: tuple[float, ...]
    hover: tuple[tuple[str, str, str, str], ...]
    first: int = 0


def shift_data(trace: Trace, lane: int, label: str = "") -> ShiftData:
    tokens = trace.tokens
    return ShiftData(
        label or lane_label(trace.config),
        lane,
        tuple(round(token.tv, 6) for token in tokens),
        tuple((plotly_text(t.piece), number(t.tv), number(t.kl), str(t.position)) for t in tokens),
        tokens[0].position if tokens else 0,
    )


def shift_plot(runs: Sequence[Run], lanes: Sequence[ShiftData]) -> Plot:
    """Runs and their data."""
    rows = tuple(
        (data.lane + 1, data.label, token.position, token.piece, token.tv, token.kl)
        for run, data in zip(runs, lanes, strict=True)
        for token in run.trace.tokens
    )
    return Plot(
        shift_figure(lanes),
        Data(("lane", "rule", "position", "piece", "tv", "kl"), rows),
        "Total variation between emitted law and p at every position, all runs on one scale",
    )


def shift_figure(lanes: Sequence[ShiftData]) -> go.Figure:
    """All runs on the scale of the largest TV, so that a run that shifts nothing is an empty row."""
    top = max([0.01, *(value for lane in lanes for value in lane.tv)])
    first, last = min(lane.first for lane in lanes), max(lane.first + len(lane.tv) for lane in lanes)
    bars = [_bars(lane, row) for row, lane in enumerate(lanes, start=1)]
    captions = [caption(f"{lane.label}, TV", row) for row, lane in enumerate(lanes, start=1)]
    return drawn(
        bars,
        height=ROW_PX * len(lanes) + 52,
        margin=dict(PLAIN),
        bargap=0.15,
        annotations=captions,
        **rows_layout(
            len(lanes),
            ROW_PX,
            x={"showgrid": False, "zeroline": False, "fixedrange": False, "range": [first - 0.6, last - 0.4]},
            y={"range": [0, 1.06 * top], "nticks": 3},
            title="position",
        ),
    )


_HOVER = "<b>%{customdata[0]}</b>  position %{customdata[3]}<br>TV %{customdata[1]}   KL %{customdata[2]}"


def _bars(lane: ShiftData, row: int) -> dict[str, Any]:
    name = escape(lane.label)
    shifted = [place for place, value in enumerate(lane.tv) if value]  # a bar of no height would only cost time
    return {
        "type": "bar", "x": [lane.first + place for place in shifted], "y": [lane.tv[place] for place in shifted],
        "customdata": [lane.hover[place] for place in shifted], "width": 0.85, "name": name, "showlegend": False,
        "marker": {"color": LANES[lane.lane % len(LANES)], "line": {"width": 0}}, "hovertemplate": f"{_HOVER}<extra>{name}</extra>",
        "meta": {"lane": lane.lane, "position": 3}, "xaxis": "x", "yaxis": f"y{row}" if row > 1 else "y",
    }  # fmt: skip


def cumulative_plot(lanes: Sequence[ShiftData]) -> Plot:
    """Every run's TV summed up to each position: a flat line is lossless."""
    sums = [tuple(accumulate(lane.tv)) for lane in lanes]
    rows = tuple(
        (lane.lane + 1, lane.label, position, total)
        for lane, totals in zip(lanes, sums, strict=True)
        for position, total in enumerate(totals, start=lane.first)
    )
    figure = drawn(
        [_line(lane, totals) for lane, totals in zip(lanes, sums, strict=True)],
        height=300,
        hovermode="x unified" if len(lanes) > 1 else "closest",
        xaxis=axis(title={"text": "position"}, showgrid=False, fixedrange=False),
        yaxis=axis(title={"text": "TV, summed"}, rangemode="tozero"),
    )
    return Plot(
        figure, Data(("lane", "rule", "position", "tv_cumulative"), rows), "Total variation, summed up to each position"
    )


def _line(lane: ShiftData, totals: Sequence[float]) -> dict[str, Any]:
    look = {"color": LANES[lane.lane % len(LANES)], "width": 2, "dash": DASHES[lane.lane % len(DASHES)]}
    return {
        "type": "scatter", "mode": "lines", "x0": lane.first, "dx": 1, "y": [round(total, 6) for total in totals], "line": look,
        "name": escape(lane.label), "hovertemplate": "%{y:.3g}", "showlegend": True,
    }  # fmt: skip
