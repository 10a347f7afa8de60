"""The shift, summed up to every position: how far the distribution of the emitted text is from the
target's. No gradio."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import accumulate

from display.format import bounded, number
from display.plot import FigurePart, Plot, axis, drawn, plotly_text
from mars_core.types import ShiftKind
from ui.figures.runs import PlottedRun, by_run

HEADS = ("position", "piece", "tv", "kl", "tv_cumulative")
KINDS = {
    ShiftKind.BOUND: "upper bounds of TV",
    ShiftKind.MISSING: "TV not known",
    ShiftKind.UNKNOWN: "TV not known",
}
DASHES = ("solid", "dash", "dot", "dashdot")  # of the lanes: no colour is needed to tell them apart
_HOVER = (
    "<b>%{customdata[0]}</b>  position %{customdata[3]}<br>"
    "TV %{customdata[1]}   KL %{customdata[2]}   TV so far %{y:.3g}"
)


def shift_plot(runs: Sequence[PlottedRun]) -> Plot:
    """Draw every run's TV summed up to each position: a flat line is lossless, a step is a token that
    shifts."""
    sums = [list(accumulate(token.tv for token in run.trace.tokens)) for run in runs]
    figure = drawn(
        [_line(run, totals) for run, totals in zip(runs, sums, strict=True)],
        height=300,
        hovermode="closest",
        xaxis=axis("position", showgrid=False, fixedrange=False),
        yaxis=axis("TV, summed", rangemode="tozero"),
    )
    rows = [
        [
            (token.position, token.piece, token.tv, token.kl, total)
            for token, total in zip(run.trace.tokens, totals, strict=True)
        ]
        for run, totals in zip(runs, sums, strict=True)
    ]
    data = by_run(HEADS, zip(runs, rows, strict=True))
    return Plot(figure, data, "Total variation, summed up to each position")


def _line(run: PlottedRun, totals: Sequence[float]) -> FigurePart:
    kind, tokens = run.trace.config.shift_kind, run.trace.tokens
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [token.position for token in tokens],
        "y": [round(total, 6) for total in totals],
        "name": escape(f"{run.label}, {KINDS[kind]}" if kind in KINDS else run.label),
        "meta": {"lane": run.lane, "position": 3},
        "customdata": [
            (
                plotly_text(token.piece),
                bounded(number(token.tv), kind),
                bounded(number(token.kl), kind),
                str(token.position),
            )
            for token in tokens
        ],
        "hovertemplate": f"{_HOVER}<extra>{escape(run.label)}</extra>",
        "showlegend": True,
        "line": {"color": run.colour, "width": 2, "dash": DASHES[run.lane % len(DASHES)]},
    }
