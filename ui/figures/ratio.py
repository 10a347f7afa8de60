"""How sure the target was where a draft was judged: histograms of the margin, split by what became of the drafted token. No gradio."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from evaluation.format import plural
from mars_core.types import Outcome, Trace
from ui.figures.margins import Scale, margin
from ui.figures.plot import Data, Plot, Run
from ui.figures.style import TEXT, caption, drawn, name, rows_layout
from ui.kit.labels import lane_label
from ui.kit.palette import OUTCOME_STYLES

ROW_PX = 128
BIN = 0.02
JUDGED = (Outcome.ACCEPTED, Outcome.RELAXED, Outcome.REJECTED)
HATCHES = {Outcome.ACCEPTED: "", Outcome.RELAXED: "/", Outcome.REJECTED: "x"}


@dataclass(frozen=True, slots=True)
class RatioData:
    """One run: places at which drafted tokens were judged, by outcome and bin. ``border``: where its own rule begins to forgive;
    None where it does not judge the margin. ``without``: places that have no margin (z₁ ≤ 0)."""

    label: str
    lane: int
    counts: tuple[tuple[int, ...], ...]  # as JUDGED, a count for each bin
    border: float | None
    without: int


def ratio_data(trace: Trace, lane: int, scale: Scale, label: str = "") -> RatioData:
    """Every place once: the refused siblings of a tree stand at one place."""
    places = {
        (token.step, token.position, token.outcome): margin(token, scale.name)
        for step in trace.steps
        for token in step.tokens
        if token.outcome in JUDGED
    }
    counts = [[0] * bins(scale) for _ in JUDGED]
    for (_, _, outcome), value in places.items():
        if not math.isnan(value):
            counts[JUDGED.index(outcome)][_bin(value, scale)] += 1
    without = sum(map(math.isnan, places.values()))
    title = label or lane_label(trace.config)
    return RatioData(title, lane, tuple(map(tuple, counts)), own_border(trace, scale), without)


def own_border(trace: Trace, scale: Scale) -> float | None:
    """θ of a run on the scale, if its rule has one there."""
    given = trace.config.rule.parameters if trace.config.rule.name.startswith("mars") else {}
    if scale.name == "r":
        return given.get("theta")
    return math.exp(-given["gap"]) if "gap" in given else None


def bins(scale: Scale) -> int:
    return max(1, round((scale.high - scale.low) / BIN))


def _bin(value: float, scale: Scale) -> int:
    return min(bins(scale) - 1, max(0, int((value - scale.low) / BIN + 1e-9)))


def ratio_plot(runs: Sequence[Run], scale: Scale) -> Plot:
    """Runs that drafted, all on one scale."""
    rows = [ratio_data(run.trace, run.lane, scale, run.label) for run in runs]
    top = max(max(map(sum, zip(*row.counts, strict=True))) for row in rows) or 1
    bars = [_bars(row, place, outcome, scale) for place, row in enumerate(rows, start=1) for outcome in JUDGED]
    figure = drawn(
        bars,
        height=ROW_PX * len(rows) + 92,
        barmode="stack",
        bargap=0.06,
        annotations=[
            *(caption(row.label, place) for place, row in enumerate(rows, start=1)),
            *(_border_name(row, place, scale) for place, row in enumerate(rows, start=1)),
        ],
        shapes=[_border(row, place, scale) for place, row in enumerate(rows, start=1)],
        **rows_layout(
            len(rows), ROW_PX,
            x={"range": [scale.low, scale.high], "showgrid": False, "zeroline": False},
            y={"range": [0, 1.08 * top], "nticks": 4, "title": {"text": "places"}},
            title="r = z₂/z₁" if scale.name == "r" else "e^−gap",
        ),
    )  # fmt: skip
    without = sum(row.without for row in rows)
    note = f"; {plural(without, 'place')} without a ratio (z₁ ≤ 0) left out" if without else ""
    return Plot(figure, _numbers(rows, scale), f"{scale.name} at the places where drafted tokens were judged{note}")


def _bars(row: RatioData, place: int, outcome: Outcome, scale: Scale) -> dict[str, Any]:
    counts = row.counts[JUDGED.index(outcome)]
    pattern = {"shape": HATCHES[outcome], "fillmode": "overlay", "fgcolor": "#FFFFFF", "fgopacity": 0.6, "size": 6}
    marker = {"color": OUTCOME_STYLES[outcome].light, "line": {"width": 0}} | (
        {"pattern": pattern} if HATCHES[outcome] else {}
    )
    edges = [(scale.low + BIN * index, scale.low + BIN * (index + 1)) for index in range(len(counts))]
    return {
        "type": "bar", "x": [round((low + high) / 2, 4) for low, high in edges], "y": list(counts), "width": BIN,
        "name": outcome.value, "legendgroup": outcome.value, "showlegend": place == 1, "marker": marker,
        "customdata": [f"{low:.2f} to {high:.2f}" for low, high in edges], "xaxis": "x", "yaxis": name(place, "y"),
        "hovertemplate": f"%{{y}} {outcome.value}, {scale.name} %{{customdata}}<extra>{escape(row.label)}</extra>",
    }  # fmt: skip


def _border(row: RatioData, place: int, scale: Scale) -> dict[str, Any]:
    """A line at θ: whole where the run's own rule has it, dotted where it is only that of the others."""
    own = row.border is not None
    x = scale.border if row.border is None else row.border
    return {
        "type": "line", "x0": x, "x1": x, "y0": 0, "y1": 1, "xref": "x", "yref": f"{name(place, 'y')} domain",
        "line": {"color": TEXT, "width": 1.5 if own else 1, "dash": "solid" if own else "dot"},
    }  # fmt: skip


def _border_name(row: RatioData, place: int, scale: Scale) -> dict[str, Any]:
    own = scale.border if row.border is None else row.border
    text = scale.caption if own == scale.border else f"{'θ' if scale.name == 'r' else 'e^−g'} = {own:.3g}"
    return {
        "text": text, "showarrow": False, "x": own, "xref": "x", "y": 1, "yref": f"{name(place, 'y')} domain",
        "xanchor": "right" if own > (scale.low + scale.high) / 2 else "left", "yanchor": "bottom", "font": {"color": TEXT},
    }  # fmt: skip


def _numbers(rows: Sequence[RatioData], scale: Scale) -> Data:
    return Data(
        ("lane", "rule", "quantity", "from", "to", *(outcome.value for outcome in JUDGED)),
        tuple(
            (row.lane + 1, row.label, "r" if scale.name == "r" else "exp_minus_gap", round(scale.low + BIN * i, 6),
             round(scale.low + BIN * (i + 1), 6), *(counts[i] for counts in row.counts))
            for row in rows
            for i in range(bins(scale))
        ),
    )  # fmt: skip
