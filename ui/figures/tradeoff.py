"""The trade-off chart of a sweep: speed-up over strict against what it costs, with the Pareto front
and the paper's speeds.

The paper gives no divergence and no TV, so its points stand in a strip of their own on the right:
only their height can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import plotly.graph_objects as go

from evaluation.format import MISSING, bounded, count, number, plural, ratio, share
from evaluation.study.plan import Plan
from evaluation.study.points import LEAST_PAIRS, Cost, Interval, Point, optimal
from evaluation.study.sweep import Cell, first_lane, ks_of
from ui.figures.plot import LEGEND, Data, Part, Plot, Value, axis, drawn, plotly_text
from ui.kit.labels import parameter_title, rule_title
from ui.kit.palette import LANES, NEUTRAL

COSTS: Mapping[Cost, str] = {
    Cost.DIFFER: "Share of texts that differ",
    Cost.TV: "Mean TV a token",
    Cost.SCORE_LOSS: "Task score loss",
}
SYMBOLS = (
    "circle",
    "square",
    "triangle-up",
    "cross",
    "pentagon",
    "hexagon2",
    "star-triangle-up",
    "hourglass",
)
PAPER_SYMBOL = "diamond-open"
TOO_FEW = f"fewer than {LEAST_PAIRS} pairs: not compared with other settings"
# points that carry their value as text; with more only those on the front do, hover tells the
# others
LABELLED = 12
COLOURS = (*LANES[1:], LANES[0])  # grey last: the paper's points are grey
HEIGHT = 440
STRIP = 0.84  # of the width: where the paper's strip begins
PUBLISHED_SETTING = "T = 1, K = 7, arXiv 2601.15498"
EVEN: Part = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": 1, "y1": 1} | {
    "line": {"color": NEUTRAL, "width": 1, "dash": "dash"}
}  # strict's own speed
GROUND: Part = {
    "type": "rect",
    "xref": "paper",
    "x0": STRIP,
    "x1": 1,
    "yref": "paper",
    "y0": 0,
    "y1": 1,
} | dict(fillcolor=NEUTRAL, opacity=0.07, line={"width": 0}, layer="below")  # of the paper's strip
_HOVER = (
    "<b>%{customdata[0]}</b><br>speed-up %{customdata[1]}, %{customdata[2]} pairs<br>"
    "texts differ %{customdata[3]}   TV %{customdata[4]}<br>right %{customdata[5]}<br>%{customdata[6]}<extra></extra>"
)
_PAPER_HOVER = (
    "<b>%{customdata[0]}</b>, published<br>MARS %{customdata[2]} / EAGLE-3 %{customdata[3]} = %{customdata[1]}<br>"
    f"τ %{{customdata[4]}} against %{{customdata[5]}}<br>{PUBLISHED_SETTING}<br>no divergence published<extra></extra>"
)


class Published(NamedTuple):
    """Speeds of the paper over plain decoding: EAGLE-3 as published, and with MARS; τ of both."""

    target: str
    strict: float
    strict_tau: float
    mars: float
    mars_tau: float

    @property
    def speedup(self) -> float:
        """Of MARS over EAGLE-3: what a sweep's speed-up over strict corresponds to."""
        return self.mars / self.strict


PUBLISHED: tuple[Published, ...] = (
    Published("Vicuna-13B", 3.12, 5.64, 3.74, 7.20),
    Published("Llama-3.1-8B", 3.24, 4.82, 4.00, 6.61),
    Published("Llama-3.3-70B", 4.40, 5.66, 4.76, 6.39),
    Published("Qwen3-8B", 2.96, 4.41, 3.23, 5.22),
    Published("Qwen3-32B", 3.01, 4.21, 3.49, 5.23),
    Published("Qwen3-235B-A22B", 2.95, 4.14, 3.42, 5.14),
)


class Mark(NamedTuple):
    """One setting in the chart. ``row``: its place in the table; ``colour`` and ``shape`` count
    temperatures and drafts."""

    row: int
    x: float
    speed: Interval
    label: str
    group: str
    colour: int
    shape: int
    best: bool
    hover: tuple[str, ...]


def value_label(plan: Plan, cell: Cell) -> str:
    """``θ = 0.9``, or the rule's name where it has no parameter."""
    if cell.value is None:
        return rule_title(first_lane(plan).rule.name)
    return f"{parameter_title(plan.varied or '')} = {cell.value:g}"


def group_label(plan: Plan, cell: Cell) -> str:
    """``T = 1, K = 5``; for a tree how many tokens it drafts."""
    tree = first_lane(plan).drafter.tree
    draft = f"tree of {tree.tokens}" if tree else f"K = {cell.k}"
    return f"T = {cell.temperature:g}, {draft}"


def setting_label(plan: Plan, cell: Cell) -> str:
    """``θ = 0.9, T = 1, K = 5``."""
    return f"{value_label(plan, cell)}, {group_label(plan, cell)}"


def against(cost: Cost) -> str:
    """The cost within a sentence."""
    return COSTS[cost][0].lower() + COSTS[cost][1:]


def tradeoff_plot(plan: Plan, points: Sequence[Point], cost: Cost) -> Plot | None:
    """Settings of which both speed-up and cost were measured; None where there is none."""
    best = optimal(points, cost)
    known = {
        row: point
        for row, point in enumerate(points)
        if math.isfinite(point.speedup.value + point.cost(cost))
    }
    marks = {row: _mark(plan, row, point, cost, row in best) for row, point in known.items()}
    if not marks:
        return None
    shown, front = list(marks.values()), [marks[row] for row in best]
    return Plot(_figure(shown, front, cost), _numbers(shown, cost), _title(shown, front, cost))


def _mark(plan: Plan, row: int, point: Point, cost: Cost, best: bool) -> Mark:
    cell, ks, speed = point.cell, ks_of(plan), point.speedup
    value, group = value_label(plan, cell), group_label(plan, cell)
    interval = f" ({ratio(speed.low)} to {ratio(speed.high)})" if math.isfinite(speed.low) else ""
    scores = (
        f"{share(point.score.value)}, strict {share(point.strict_score.value)}"
        if point.scored
        else MISSING
    )
    verdict = "not beaten by any other setting" if best else "beaten by another setting"
    measured = (
        count(point.n),
        share(point.differ.value),
        bounded(number(point.tv), point.tv_kind),
        scores,
    )
    verdict = TOO_FEW if point.n < LEAST_PAIRS else verdict
    hover = (f"{value}, {group}", ratio(speed.value) + interval, *measured, verdict)
    label = value if cell.value is None else f"{cell.value:g}"
    colour, shape = (
        plan.temperatures.index(cell.temperature),
        ks.index(cell.k) if cell.k in ks else 0,
    )
    return Mark(row, point.cost(cost), speed, label, group, colour, shape, best, hover)


def _title(marks: Sequence[Mark], front: Sequence[Mark], cost: Cost) -> str:
    intro = f"Speed-up over strict against {against(cost)}: {plural(len(marks), 'setting')}"
    paper = (
        f"Right: MARS over EAGLE-3 as published ({PUBLISHED_SETTING}), which gives no such cost."
    )
    if not front:
        return f"{intro}; no Pareto front from fewer than {LEAST_PAIRS} pairs a setting. {paper}"
    fastest = max(marks, key=lambda mark: mark.speed.value)
    several = len({mark.group for mark in marks}) > 1
    names = [f"{mark.label} ({mark.group})" if several else mark.label for mark in front]
    best = ", ".join(names[:6]) + (" …" if len(names) > 6 else "")
    return f"{intro}, fastest {fastest.label} at {fastest.group} with {ratio(fastest.speed.value)}; on the Pareto front: {best}. {paper}"


def _numbers(marks: Sequence[Mark], cost: Cost) -> Data:
    heads = (
        "source",
        "setting",
        "value",
        str(cost),
        "speedup",
        "speedup_low95",
        "speedup_high95",
        "pareto",
    )
    own: list[tuple[Value, ...]] = [
        ("sweep", mark.group, mark.label, mark.x, *mark.speed, str(mark.best).lower())
        for mark in marks
    ]
    paper = [
        ("arXiv 2601.15498", "T = 1, K = 7", each.target, None, each.speedup, None, None, "")
        for each in PUBLISHED
    ]
    return Data(heads, [*own, *paper])


def _figure(marks: Sequence[Mark], front: Sequence[Mark], cost: Cost) -> go.Figure:
    """Points with 95 % intervals, the front as a line under them, the paper's points in a strip on
    the right."""
    groups: dict[str, list[Mark]] = {}
    for mark in marks:
        groups.setdefault(mark.group, []).append(mark)
    unit = {Cost.SCORE_LOSS: ", percentage points", Cost.TV: ", 0 to 1"}.get(cost, "")
    values = [0.0, *(mark.x for mark in marks)]
    room = 0.07 * ((max(values) - min(values)) or 0.1)
    across = {
        "domain": [0, STRIP - 0.03],
        "range": [min(values) - room, max(values) + room],
        "zeroline": False,
    }
    strip = {"domain": [STRIP, 1], "range": [-0.7, 0.7], "tickvals": [], "anchor": "y"}
    up = {"ticksuffix": "×", "tickformat": ".3~g", "range": _up(marks), "zeroline": False}
    return drawn(
        [
            _front(front),
            *(_group(name, own, len(marks) <= LABELLED) for name, own in groups.items()),
            _paper(),
        ],
        height=HEIGHT,
        hovermode="closest",
        xaxis=axis(
            f"{COSTS[cost]}{unit}", tickformat=".3~g" if cost is Cost.TV else ".0%", **across
        ),
        xaxis2=axis("Paper", showgrid=False, zeroline=False, **strip),
        yaxis=axis("Speed-up over strict", **up),
        shapes=[EVEN, GROUND],
        legend=LEGEND | {"y": 1.01, "itemsizing": "constant"},
    )


def _front(marks: Sequence[Mark]) -> Part:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": "Pareto front",
        "x": [mark.x for mark in marks],
        "y": [mark.speed.value for mark in marks],
        "line": {"color": NEUTRAL, "width": 1.5, "dash": "dot"},
        "hoverinfo": "skip",
        "marker": {"symbol": "circle-open", "size": 18, "color": NEUTRAL, "line": {"width": 1.5}},
    }


def _group(name: str, marks: Sequence[Mark], labelled: bool) -> Part:
    """A click shows the row of the table: ``position`` of the shared figure script is the row
    here."""
    first = marks[0]
    colour = COLOURS[first.colour % len(COLOURS)]
    symbol = SYMBOLS[(first.shape + first.colour // len(COLOURS)) % len(SYMBOLS)]
    # behind the points
    faint = f"rgba({', '.join(str(int(colour[at : at + 2], 16)) for at in (1, 3, 5))}, 0.45)"
    return {
        "type": "scatter",
        "mode": "markers+text",
        "name": name,
        "x": [mark.x for mark in marks],
        "y": [mark.speed.value for mark in marks],
        "text": [mark.label if labelled or mark.best else "" for mark in marks],
        "textposition": "top center",
        "textfont": {"size": 11, "color": NEUTRAL},
        "customdata": [(*mark.hover, mark.row) for mark in marks],
        "meta": {"lane": 0, "position": 7},
        "marker": {"color": colour, "symbol": symbol, "size": 10},
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [mark.speed.high - mark.speed.value for mark in marks],
            "arrayminus": [mark.speed.value - mark.speed.low for mark in marks],
            "color": faint,
            "thickness": 1.5,
            "width": 0,
        },
        "hovertemplate": _HOVER,
    }


def _paper() -> Part:
    """Spread over the strip so that near ones stay apart; their places across mean nothing."""
    texts = [
        (
            plotly_text(e.target),
            *map(ratio, (e.speedup, e.mars, e.strict)),
            *map(number, (e.mars_tau, e.strict_tau)),
        )
        for e in PUBLISHED
    ]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "Paper: MARS / EAGLE-3",
        "xaxis": "x2",
        "x": [0.5 * (place % 3 - 1) for place in range(len(PUBLISHED))],
        "y": [each.speedup for each in PUBLISHED],
        "customdata": texts,
        "hovertemplate": _PAPER_HOVER,
        "marker": {"color": NEUTRAL, "symbol": PAPER_SYMBOL, "size": 10, "line": {"width": 1.5}},
    }


def _up(marks: Sequence[Mark]) -> list[float]:
    """The range of speed-ups, the paper's and 1 × included, so that it is the same kind of picture
    for every sweep. Ends of intervals far off are cut by the border: hover and table have them."""
    values = [1.0, *(entry.speedup for entry in PUBLISHED), *(mark.speed.value for mark in marks)]
    low, high = min(values), max(values)
    room = 0.5 * (high - low)
    ends = [end for mark in marks for end in mark.speed[1:] if math.isfinite(end)] or [low, high]
    low, high = min(low, max(low - room, min(ends))), max(high, min(high + room, max(ends)))
    return [low - 0.06 * (high - low), high + 0.1 * (high - low)]
