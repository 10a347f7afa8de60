"""The numbers of a sweep's trade-off chart: one mark a setting with both speed-up and cost, the front, and how it is said in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from evaluation.format import MISSING, count, number, plural, ratio, share
from evaluation.study.plan import Plan
from evaluation.study.points import Cost, Point, optimal
from evaluation.study.sweep import Cell, first_lane, ks_of
from ui.figures.plot import Data
from ui.kit.labels import parameter_title, rule_title

COSTS: Mapping[Cost, str] = MappingProxyType(
    {
        Cost.DIFFER: "Share of texts that differ",
        Cost.TV: "Mean TV a token",
        Cost.SCORE_LOSS: "Task score loss",
    }
)


@dataclass(frozen=True, slots=True)
class Published:
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


PUBLISHED_SETTING = "T = 1, K = 7, arXiv 2601.15498"
PUBLISHED: tuple[Published, ...] = (
    Published("Vicuna-13B", 3.12, 5.64, 3.74, 7.20),
    Published("Llama-3.1-8B", 3.24, 4.82, 4.00, 6.61),
    Published("Llama-3.3-70B", 4.40, 5.66, 4.76, 6.39),
    Published("Qwen3-8B", 2.96, 4.41, 3.23, 5.22),
    Published("Qwen3-32B", 3.01, 4.21, 3.49, 5.23),
    Published("Qwen3-235B-A22B", 2.95, 4.14, 3.42, 5.14),
)


@dataclass(frozen=True, slots=True)
class Mark:
    """One setting in the chart. ``row``: its place in the table; ``colour`` and ``shape`` count temperatures and drafts."""

    row: int
    x: float
    y: float
    low: float
    high: float
    label: str
    group: str
    colour: int
    shape: int
    best: bool
    hover: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TradeoffData:
    """``front``: the marks that nothing beats, by rising cost."""

    cost: Cost
    marks: tuple[Mark, ...]
    front: tuple[Mark, ...]


def value_label(plan: Plan, cell: Cell) -> str:
    """``θ = 0.9``, or the rule's name where it has no parameter."""
    return (
        rule_title(first_lane(plan).rule.name)
        if cell.value is None
        else f"{parameter_title(plan.varied or '')} = {cell.value:g}"
    )


def group_label(plan: Plan, cell: Cell) -> str:
    """``T = 1, K = 5``; for a tree how many tokens it drafts."""
    tree = first_lane(plan).drafter.tree
    draft = f"tree of {tree.tokens}" if tree else f"K = {cell.k}"
    return f"T = {cell.temperature:g}, {draft}"


def tradeoff_data(plan: Plan, points: Sequence[Point], cost: Cost) -> TradeoffData:
    """Settings of which both speed-up and cost were measured."""
    best = optimal(points, cost)
    marks = {row: _mark(plan, row, point, cost, row in best) for row, point in enumerate(points) if _known(point, cost)}
    return TradeoffData(cost, tuple(marks.values()), tuple(marks[row] for row in best))


def _known(point: Point, cost: Cost) -> bool:
    return math.isfinite(point.speedup.value) and math.isfinite(point.cost(cost))


def _mark(plan: Plan, row: int, point: Point, cost: Cost, best: bool) -> Mark:
    cell, ks = point.cell, ks_of(plan)
    shape = ks.index(cell.k) if cell.k in ks else 0
    return Mark(
        row=row,
        x=point.cost(cost),
        y=point.speedup.value,
        low=point.speedup.low,
        high=point.speedup.high,
        label=value_label(plan, cell) if cell.value is None else f"{cell.value:g}",
        group=group_label(plan, cell),
        colour=plan.temperatures.index(cell.temperature),
        shape=shape,
        best=best,
        hover=_hover(plan, point, best),
    )


def _hover(plan: Plan, point: Point, best: bool) -> tuple[str, ...]:
    scores = f"{share(point.score.value)}, strict {share(point.strict_score.value)}" if point.scored else MISSING
    return (
        f"{value_label(plan, point.cell)}, {group_label(plan, point.cell)}",
        f"{ratio(point.speedup.value)} ({ratio(point.speedup.low)} to {ratio(point.speedup.high)})",
        count(point.n),
        share(point.differ.value),
        number(point.tv),
        scores,
        "not beaten by any other setting" if best else "beaten by another setting",
    )


def tradeoff_title(data: TradeoffData) -> str:
    """What is to be seen, in words."""
    fastest = max(data.marks, key=lambda mark: mark.y)
    several = len({mark.group for mark in data.marks}) > 1
    names = [f"{mark.label} ({mark.group})" if several else mark.label for mark in data.front]
    best = ", ".join(names[:6]) + (" …" if len(names) > 6 else "")
    return (
        f"Speed-up over strict against {against(data.cost)}: {plural(len(data.marks), 'setting')}, fastest "
        f"{fastest.label} at {fastest.group} with {ratio(fastest.y)}; on the Pareto front: {best}. "
        f"Right: MARS over EAGLE-3 as published ({PUBLISHED_SETTING}), which gives no such cost."
    )


def against(cost: Cost) -> str:
    """The cost within a sentence."""
    return COSTS[cost][0].lower() + COSTS[cost][1:]


def tradeoff_numbers(data: TradeoffData) -> Data:
    heads = ("source", "setting", "value", str(data.cost), "speedup", "speedup_q1", "speedup_q3", "pareto")
    own = [
        ("sweep", mark.group, mark.label, mark.x, mark.y, mark.low, mark.high, str(mark.best).lower())
        for mark in data.marks
    ]
    paper = [
        ("arXiv 2601.15498", "T = 1, K = 7", entry.target, None, entry.speedup, None, None, "") for entry in PUBLISHED
    ]
    return Data(heads, (*own, *paper))
