"""Acceptance by depth of the draft, and how sure the target was where a draft was judged. No gradio, no store."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape

from evaluation.format import plural
from mars_core.types import Outcome, Trace
from ui.figures import plot
from ui.figures.plot import Part, Plot, Row, Run, Scale
from ui.kit.palette import OUTCOME_STYLES

HEADS = ("depth", "steps", "accepted_share", "relaxed_share")


def acceptance_plot(runs: Sequence[Run]) -> Plot | None:
    """Bars per depth of the draft, the runs that drafted side by side; the relaxed part stacked on the accepted one and hatched."""
    if not runs:
        return None
    depths = list(map(_depths, runs))
    figure = plot.drawn(
        [bar for index, run in enumerate(runs) for bar in _bars(run, depths[index], index)],
        height=360,
        barmode="group",
        bargap=0.35,
        bargroupgap=0.08,
        xaxis=plot.axis("depth in the draft", showgrid=False, type="category"),
        yaxis=plot.axis("kept", tickformat=".0%", range=[0, 1.02]),
    )
    return Plot(
        figure,
        plot.by_run(HEADS, zip(runs, depths, strict=True)),
        "Share of steps that kept a token, by depth in the draft",
    )


def _depths(run: Run) -> list[tuple[int, int, float, float]]:
    """Depth, steps that drafted that deep, and in which share of them a token was kept there: accepted, relaxed. Of a served run without
    its steps: what the server reports, as accepted."""
    summary = run.trace.summary
    if not any(step.nodes for step in run.trace.steps):
        return [(depth, summary.steps, rate, 0.0) for depth, rate in enumerate(summary.acceptance_by_position, start=1)]
    steps = Counter(depth for step in run.trace.steps for depth in {node.depth for node in step.nodes})
    kept = Counter((token.outcome, token.draft_position) for token in run.trace.tokens)
    return [
        (depth, steps[depth], kept[Outcome.ACCEPTED, depth] / steps[depth], kept[Outcome.RELAXED, depth] / steps[depth])
        for depth in range(1, max(steps, default=0) + 1)
    ]


def _bars(run: Run, depths: Sequence[tuple[int, int, float, float]], index: int) -> Iterator[Part]:
    label, where = escape(run.label), [str(depth) for depth, *_ in depths]
    steps, accepted, relaxed = ([depth[place] for depth in depths] for place in (1, 2, 3))
    for name, y, base, marker in (
        ("accepted", accepted, None, plot.filled(run.colour)),
        ("relaxed", relaxed, accepted, plot.filled(OUTCOME_STYLES[Outcome.RELAXED].light, "/")),
    ):
        if name == "accepted" or any(y):
            hover = f"{label}<br>{name} %{{y:.1%}} of %{{customdata}} steps<extra></extra>"
            shown = {"name": f"{label}: {name}", "hovertemplate": hover, "customdata": steps, "offsetgroup": str(index)}
            yield plot.bars(where, y, marker, **shown, **({"base": base} if base else {}))


ROW_PX = 128
BIN = 0.02
HATCHES = {Outcome.ACCEPTED: "", Outcome.RELAXED: "/", Outcome.REJECTED: "x"}  # of the outcomes of a judged token
MARKERS = {outcome: plot.filled(OUTCOME_STYLES[outcome].light, hatch) for outcome, hatch in HATCHES.items()}
Counts = dict[Outcome, list[int]]  # places at which drafted tokens were judged: outcome → a count for each bin


def ratio_plot(runs: Sequence[Run], scale: Scale) -> Plot | None:
    """Runs that drafted, all on one scale."""
    if not runs:
        return None
    edges = [(scale.low + BIN * place, scale.low + BIN * (place + 1)) for place in range(_bins(scale))]
    places = [_places(run.trace, scale) for run in runs]
    counts = [_counts(values, scale) for values in places]
    top = max(max(map(sum, zip(*count.values(), strict=True))) for count in counts) or 1
    figure = plot.drawn_rows(
        [
            Row(
                run.label,
                [_histogram(run, outcome, count[outcome], scale, edges) for outcome in MARKERS],
                *_border(run, scale),
            )
            for run, count in zip(runs, counts, strict=True)
        ],
        row_px=ROW_PX,
        room_px=92,
        x={"title": scale.title, "range": [scale.low, scale.high], "showgrid": False, "zeroline": False},
        y={"range": [0, 1.08 * top], "nticks": 4, "title": "places"},
        key=plot.legend({outcome.value: marker for outcome, marker in MARKERS.items()}),
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
    data = plot.by_run(
        ("quantity", "from", "to", *(outcome.value for outcome in MARKERS)), zip(runs, rows, strict=True)
    )
    without = sum(math.isnan(value) for values in places for _, value in values)
    note = f"; {plural(without, 'place')} without a ratio (z₁ ≤ 0) left out" if without else ""
    return Plot(figure, data, f"{scale.name} at the places where drafted tokens were judged{note}")


def _places(trace: Trace, scale: Scale) -> list[tuple[Outcome, float]]:
    """Every place once, with its margin: the refused siblings of a tree stand at one place."""
    judged = (token for step in trace.steps for token in step.tokens if token.outcome in MARKERS)
    places = {(token.step, token.position, token.outcome): plot.margin(token, scale.name) for token in judged}
    return [(outcome, value) for (_, _, outcome), value in places.items()]


def _bins(scale: Scale) -> int:
    return max(1, round((scale.high - scale.low) / BIN))


def _counts(places: Sequence[tuple[Outcome, float]], scale: Scale) -> Counts:
    counts = {outcome: [0] * _bins(scale) for outcome in MARKERS}
    for outcome, value in places:
        if not math.isnan(value):
            counts[outcome][min(_bins(scale) - 1, max(0, int((value - scale.low) / BIN + 1e-9)))] += 1
    return counts


def _histogram(
    run: Run, outcome: Outcome, counts: Sequence[int], scale: Scale, edges: Sequence[tuple[float, float]]
) -> Part:
    middles = [round((low + high) / 2, 4) for low, high in edges]
    hover = f"%{{y}} {outcome.value}, {scale.name} %{{customdata}}<extra>{escape(run.label)}</extra>"
    shown = {"name": outcome.value, "showlegend": False, "width": BIN, "hovertemplate": hover}
    return plot.bars(
        middles, counts, MARKERS[outcome], customdata=[f"{low:.2f} to {high:.2f}" for low, high in edges], **shown
    )


def _border(run: Run, scale: Scale) -> tuple[list[Part], list[Part]]:
    """A line at θ with its name: whole where the run's own rule has it, dotted where it is only that of the others."""
    own = plot.own_border(run.trace, scale.name)
    x = scale.border if own is None else own
    line = {
        "x0": x,
        "x1": x,
        "line": {"color": plot.TEXT, "width": 1 if own is None else 1.5, "dash": "dot" if own is None else "solid"},
    }
    text = scale.caption if x == scale.border else f"{'θ' if scale.name == 'r' else 'e^−g'} = {x:.3g}"
    side = "right" if x > (scale.low + scale.high) / 2 else "left"
    return [line], [{"text": text, "x": x, "xanchor": side, "font": {"color": plot.TEXT}}]
