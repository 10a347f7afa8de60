"""How sure the target was where a draft was judged: histograms of the margin, split by what became
of the drafted token. No gradio."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from display.format import plural
from display.palette import OUTCOME_STYLES
from display.plot import LEGEND, TEXT, FigurePart, Plot, axis, drawn, filled
from mars_core.types import Outcome, Trace
from ui.figures.runs import PlottedRun, Scale, by_run, margin, rule_border

ROW_PX = 152
BIN = 0.02
HEADS = ("quantity", "outcome", "step", "position", "value")
HATCHES = {
    Outcome.ACCEPTED: "",
    Outcome.RELAXED: "/",
    Outcome.REJECTED: "x",
}  # of the outcomes of a judged token
Judged = tuple[str, str, int, int, float]  # of HEADS


def ratio_plot(runs: Sequence[PlottedRun], scale: Scale) -> Plot | None:
    """Draw a row for each run that drafted, all on one scale."""
    if not runs:
        return None
    judged = [_judged(run.trace, scale) for run in runs]
    axes = {"xaxis": axis(scale.title, range=[scale.low, 1], showgrid=False)}
    names = ["y", *(f"y{row}" for row in range(2, len(runs) + 1))]
    traces, shapes, annotations = list[FigurePart](), list[FigurePart](), list[FigurePart]()
    for name, run, tokens in zip(names, runs, judged, strict=True):
        first = name == "y"
        axes[name.replace("y", "yaxis")] = axis(
            "positions", nticks=4, matches=None if first else "y"
        )
        traces += [
            _bars(run, outcome, tokens, scale) | {"yaxis": name, "showlegend": first}
            for outcome in HATCHES
        ]
        line, border = _border(run, scale)
        caption = {"text": escape(run.label), "x": 0, "xref": "x domain", "xanchor": "left"}
        above = {"xref": "x", "yref": f"{name} domain", "yanchor": "bottom", "showarrow": False}
        annotations += [above | {"y": 1} | note for note in (caption, border)]
        shapes.append(line | {"yref": f"{name} domain"})
    figure = drawn(
        traces,
        height=ROW_PX * len(runs) + 84,
        legend=LEGEND | {"yref": "container", "yanchor": "top"},
        margin={"l": 52, "r": 14, "t": 52, "b": 44},
        grid={
            "rows": len(runs),
            "columns": 1,
            "subplots": [[f"x{name}"] for name in names],
            "ygap": 0.24,
        },
        barmode="stack",
        bargap=0.06,
        shapes=shapes,
        annotations=annotations,
        **axes,
    )
    without = sum(math.isnan(value) for tokens in judged for *_, value in tokens)
    note = f"; {plural(without, 'position')} without a ratio (z₁ ≤ 0) left out" if without else ""
    title = f"{scale.name} at the positions where drafted tokens were judged{note}"
    return Plot(figure, by_run(HEADS, zip(runs, judged, strict=True)), title)


def _judged(trace: Trace, scale: Scale) -> list[Judged]:
    """Return the margin of every position once: the rejected siblings of a tree have one."""
    margins = {
        (token.outcome.value, token.step, token.position): margin(token, scale.name)
        for step in trace.steps
        for token in step.tokens
        if token.outcome in HATCHES
    }
    return [(scale.column, *key, value) for key, value in margins.items()]


def _bars(run: PlottedRun, outcome: Outcome, tokens: Sequence[Judged], scale: Scale) -> FigurePart:
    values = [
        scale.clipped(value)
        for _, each, _, _, value in tokens
        if each == outcome.value and not math.isnan(value)
    ]
    hover = f"%{{y}} {outcome.value}, {scale.name} %{{x}}<extra>{escape(run.label)}</extra>"
    return {
        "type": "histogram",
        "x": values or [None],  # its name is in the legend
        "xbins": {"start": scale.low, "end": 1 + BIN, "size": BIN},
        "autobinx": False,
        "marker": filled(OUTCOME_STYLES[outcome].light, HATCHES[outcome]),
        "name": outcome.value,
        "hovertemplate": hover,
    }


def _border(run: PlottedRun, scale: Scale) -> tuple[FigurePart, FigurePart]:
    """Draw a line at θ with its name: solid where the run's rule has it, dotted where it is only
    that of the others."""
    border = rule_border(run.trace, scale.name)
    x = scale.border if border is None else border
    width, dash = (1, "dot") if border is None else (1.5, "solid")
    line = {"type": "line", "xref": "x", "x0": x, "x1": x, "y0": 0, "y1": 1}
    side = "right" if x > (scale.low + 1) / 2 else "left"
    return (
        line | {"line": {"color": TEXT, "width": width, "dash": dash}},
        {"text": scale.caption(x), "x": x, "xanchor": side, "font": {"color": TEXT}},
    )
