"""The shift at every position, and its sum up to there: how far the distribution of the emitted
text is from the target's. No gradio."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from itertools import accumulate

from display.format import bounded, number
from display.plot import (
    FigurePart,
    Plot,
    SubplotRow,
    axis,
    bars,
    drawn,
    drawn_rows,
    filled,
    integer_range,
    plotly_text,
)
from mars_core.types import ShiftKind
from ui.figures.runs import PlottedRun, by_run

ROW_PX = 92
KINDS = {
    ShiftKind.EXACT: "TV",
    ShiftKind.BOUND: "upper bounds of TV",
    ShiftKind.MISSING: "TV not known",
    ShiftKind.UNKNOWN: "TV not known",
}
DASHES = ("solid", "dash", "dot", "dashdot")  # of the lanes: no colour is needed to tell them apart
_HOVER = "<b>%{customdata[0]}</b>  position %{customdata[3]}<br>TV %{customdata[1]}   KL %{customdata[2]}"


def shift_plot(runs: Sequence[PlottedRun]) -> Plot:
    """Draw a row a run, on the scale of the largest TV, so that a run that shifts nothing is an
    empty row."""
    tokens = [(run, token) for run in runs for token in run.trace.tokens]
    positions = [token.position for _, token in tokens]
    top = max([0.01, *(token.tv for _, token in tokens if not math.isnan(token.tv))])
    across = {"title": "position"} | integer_range(min(positions), max(positions))
    figure = drawn_rows(
        [
            SubplotRow(f"{run.label}, {KINDS[run.trace.config.shift_kind]}", [_bars(run)])
            for run in runs
        ],
        row_px=ROW_PX,
        room_px=52,
        x=across | {"showgrid": False, "zeroline": False, "fixedrange": False},
        y={"range": [0, 1.06 * top], "nticks": 3},
        margin={"l": 52, "r": 14, "t": 8, "b": 44},
        bargap=0.15,
    )
    rows = ((run, [(t.position, t.piece, t.tv, t.kl) for t in run.trace.tokens]) for run in runs)
    title = "Total variation between the emitted distribution and p at every position, all runs on one scale"
    return Plot(figure, by_run(("position", "piece", "tv", "kl"), rows), title)


def _bars(run: PlottedRun) -> FigurePart:
    shifted = [
        token for token in run.trace.tokens if token.tv == token.tv and round(token.tv, 6)
    ]  # a bar of no height would only cost time
    kind = run.trace.config.shift_kind
    hover = [
        (
            plotly_text(t.piece),
            bounded(number(t.tv), kind),
            bounded(number(t.kl), kind),
            str(t.position),
        )
        for t in shifted
    ]
    return bars(
        [token.position for token in shifted],
        [round(token.tv, 6) for token in shifted],
        filled(run.colour),
        name=escape(run.label),
        showlegend=False,
        meta={"lane": run.lane, "position": 3},
        width=0.85,
        customdata=hover,
        hovertemplate=f"{_HOVER}<extra>{escape(run.label)}</extra>",
    )


def cumulative_plot(runs: Sequence[PlottedRun]) -> Plot:
    """Draw every run's TV summed up to each position: a flat line is lossless."""
    positions = [[token.position for token in run.trace.tokens] for run in runs]
    there = [position for each in positions for position in each]
    sums = [list(accumulate(token.tv for token in run.trace.tokens)) for run in runs]
    figure = drawn(
        [_line(run, totals) for run, totals in zip(runs, sums, strict=True)],
        height=300,
        hovermode="x unified" if len(runs) > 1 else "closest",
        xaxis=axis(
            "position", showgrid=False, fixedrange=False, **integer_range(min(there), max(there))
        ),
        yaxis=axis("TV, summed", rangemode="tozero"),
    )
    rows = [zip(at, totals, strict=True) for at, totals in zip(positions, sums, strict=True)]
    data = by_run(("position", "tv_cumulative"), zip(runs, rows, strict=True))
    return Plot(figure, data, "Total variation, summed up to each position")


def _line(run: PlottedRun, totals: Sequence[float]) -> FigurePart:
    kind = run.trace.config.shift_kind
    name = run.label if kind is ShiftKind.EXACT else f"{run.label}, {KINDS[kind]}"
    return {
        "type": "scatter",
        "mode": "lines",
        "x0": run.trace.tokens[0].position,
        "dx": 1,
        "y": [round(total, 6) for total in totals],
        "name": escape(name),
        "hovertemplate": "%{y:.3g}",
        "showlegend": True,
        "line": {"color": run.colour, "width": 2, "dash": DASHES[run.lane % len(DASHES)]},
    }
