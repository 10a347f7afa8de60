"""Acceptance by depth of the draft: in how many of the steps that drafted that deep a token was
kept there. No gradio, no store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape

from display.palette import OUTCOME_STYLES
from display.plot import FigurePart, Plot, axis, drawn, filled
from mars_core.types import Outcome
from ui.figures.runs import PlottedRun, by_run

HEADS = ("depth", "steps", "accepted_share", "relaxed_share")


def acceptance_plot(runs: Sequence[PlottedRun]) -> Plot | None:
    """Bars per depth of the draft, the runs that drafted side by side; the relaxed part stacked on
    the accepted one and hatched."""
    if not runs:
        return None
    depths = list(map(_depths, runs))
    figure = drawn(
        [bar for index, run in enumerate(runs) for bar in _bars(run, depths[index], index)],
        height=360,
        barmode="group",
        bargap=0.35,
        bargroupgap=0.08,
        xaxis=axis("depth in the draft", showgrid=False, type="category"),
        yaxis=axis("kept", tickformat=".0%", range=[0, 1.02]),
    )
    return Plot(
        figure,
        by_run(HEADS, zip(runs, depths, strict=True)),
        "Share of steps that kept a token, by depth in the draft",
    )


def _depths(run: PlottedRun) -> list[tuple[int, int, float, float]]:
    """Depth, steps that drafted that deep, and in which share of them a token was kept there:
    accepted, relaxed. Of a served run without its steps: what the server reports, as accepted."""
    summary = run.trace.summary
    if not any(step.nodes for step in run.trace.steps):
        return [
            (depth, summary.steps, rate, 0.0)
            for depth, rate in enumerate(summary.acceptance_by_position, start=1)
        ]
    steps = Counter(
        depth for step in run.trace.steps for depth in {node.depth for node in step.nodes}
    )
    outcomes = Counter((token.outcome, token.draft_position) for token in run.trace.tokens)
    return [
        (
            depth,
            steps[depth],
            outcomes[Outcome.ACCEPTED, depth] / steps[depth],
            outcomes[Outcome.RELAXED, depth] / steps[depth],
        )
        for depth in range(1, max(steps, default=0) + 1)
    ]


def _bars(
    run: PlottedRun, depths: Sequence[tuple[int, int, float, float]], index: int
) -> Iterator[FigurePart]:
    label, where = escape(run.label), [str(depth) for depth, *_ in depths]
    steps, accepted, relaxed = ([depth[column] for depth in depths] for column in (1, 2, 3))
    for name, y, base, marker in (
        ("accepted", accepted, None, filled(run.colour)),
        ("relaxed", relaxed, accepted, filled(OUTCOME_STYLES[Outcome.RELAXED].light, "/")),
    ):
        if name == "accepted" or any(y):
            hover = f"{label}<br>{name} %{{y:.1%}} of %{{customdata}} steps<extra></extra>"
            yield {
                "type": "bar",
                "x": where,
                "y": y,
                "marker": marker,
                "name": f"{label}: {name}",
                "hovertemplate": hover,
                "customdata": steps,
                "offsetgroup": str(index),
                "base": base,
            }
