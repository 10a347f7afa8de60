"""How sure the target was where a draft was judged: histograms of the margin, split by what became
of the drafted token. No gradio."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from html import escape

from display.format import plural
from display.palette import OUTCOME_STYLES
from display.plot import TEXT, FigurePart, Plot, SubplotRow, bars, drawn_rows, filled
from mars_core.types import Outcome, Trace
from ui.figures.runs import PlottedRun, Scale, by_run, margin, rule_border

ROW_PX = 128
BIN = 0.02
HATCHES = {
    Outcome.ACCEPTED: "",
    Outcome.RELAXED: "/",
    Outcome.REJECTED: "x",
}  # of the outcomes of a judged token
MARKERS = {
    outcome: filled(OUTCOME_STYLES[outcome].light, hatch) for outcome, hatch in HATCHES.items()
}


def ratio_plot(runs: Sequence[PlottedRun], scale: Scale) -> Plot | None:
    """Runs that drafted, all on one scale."""
    if not runs:
        return None
    edges = [(scale.low + BIN * at, scale.low + BIN * (at + 1)) for at in range(_bins(scale))]
    margins = [_margins(run.trace, scale) for run in runs]
    counts = [_counts(values, scale) for values in margins]
    top = max(max(map(sum, zip(*count.values(), strict=True))) for count in counts) or 1
    figure = drawn_rows(
        [
            SubplotRow(
                run.label,
                [_bars(run, outcome, count[outcome], scale, edges) for outcome in MARKERS],
                *_border(run, scale),
            )
            for run, count in zip(runs, counts, strict=True)
        ],
        row_px=ROW_PX,
        room_px=92,
        x={
            "title": scale.title,
            "range": [scale.low, scale.high],
            "showgrid": False,
            "zeroline": False,
        },
        y={"range": [0, 1.08 * top], "nticks": 4, "title": "positions"},
        key=[
            bars([None], [None], marker, name=outcome.value, hoverinfo="skip")
            for outcome, marker in MARKERS.items()
        ],
        barmode="stack",
        bargap=0.06,
    )
    rows = [
        [
            (scale.column, round(low, 6), round(high, 6), *judged)
            for (low, high), *judged in zip(edges, *count.values(), strict=True)
        ]
        for count in counts
    ]
    data = by_run(
        ("quantity", "from", "to", *(outcome.value for outcome in MARKERS)),
        zip(runs, rows, strict=True),
    )
    without = sum(math.isnan(value) for values in margins for _, value in values)
    note = f"; {plural(without, 'position')} without a ratio (z₁ ≤ 0) left out" if without else ""
    return Plot(
        figure, data, f"{scale.name} at the positions where drafted tokens were judged{note}"
    )


def _margins(trace: Trace, scale: Scale) -> list[tuple[Outcome, float]]:
    """Return the margin of every position once: the rejected siblings of a tree have one."""
    margins = {
        (token.step, token.position, token.outcome): margin(token, scale.name)
        for step in trace.steps
        for token in step.tokens
        if token.outcome in MARKERS
    }
    return [(outcome, value) for (_, _, outcome), value in margins.items()]


def _bins(scale: Scale) -> int:
    return max(1, round((scale.high - scale.low) / BIN))


def _counts(margins: Sequence[tuple[Outcome, float]], scale: Scale) -> dict[Outcome, list[int]]:
    """Return the positions at which drafted tokens were judged, by outcome and bin."""
    bins = _bins(scale)
    counts = Counter(
        (outcome, min(bins - 1, max(0, int((value - scale.low) / BIN + 1e-9))))
        for outcome, value in margins
        if not math.isnan(value)
    )
    return {outcome: [counts[outcome, at] for at in range(bins)] for outcome in MARKERS}


def _bars(
    run: PlottedRun,
    outcome: Outcome,
    counts: Sequence[int],
    scale: Scale,
    edges: Sequence[tuple[float, float]],
) -> FigurePart:
    middles = [round((low + high) / 2, 4) for low, high in edges]
    hover = (
        f"%{{y}} {outcome.value}, {scale.name} %{{customdata}}<extra>{escape(run.label)}</extra>"
    )
    style = {"name": outcome.value, "showlegend": False, "width": BIN, "hovertemplate": hover}
    return bars(
        middles,
        counts,
        MARKERS[outcome],
        customdata=[f"{low:.2f} to {high:.2f}" for low, high in edges],
        **style,
    )


def _border(run: PlottedRun, scale: Scale) -> tuple[list[FigurePart], list[FigurePart]]:
    """Draw a line at θ with its name: solid where the run's rule has it, dotted where it is only
    that of the others."""
    border = rule_border(run.trace, scale.name)
    x = scale.border if border is None else border
    width, dash = (1, "dot") if border is None else (1.5, "solid")
    line = {"x0": x, "x1": x, "line": {"color": TEXT, "width": width, "dash": dash}}
    text = (
        scale.caption if x == scale.border else f"{'θ' if scale.name == 'r' else 'e^−g'} = {x:.3g}"
    )
    side = "right" if x > (scale.low + scale.high) / 2 else "left"
    return [line], [{"text": text, "x": x, "xanchor": side, "font": {"color": TEXT}}]
