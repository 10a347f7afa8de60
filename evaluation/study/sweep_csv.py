"""CSV tables of a sweep: one row per setting, or one row per pair."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from evaluation.study.pairs import Sweep
from evaluation.study.plan import Plan
from evaluation.study.points import Cost, Point, optimal, points
from evaluation.study.sweep import case_of, first_lane, other_parameters
from mars_core.models import CATALOG

_PLAN: dict[str, Callable[[Plan], Any]] = {
    "pair": lambda plan: next((spec.title for spec in CATALOG if spec.key == plan.models.key), plan.models.key),
    "rule": lambda plan: first_lane(plan).rule.name,
    "parameter": lambda plan: plan.varied,
    "other_parameters": lambda plan: ", ".join(f"{name}={value:g}" for name, value in other_parameters(plan).items()),
    "drafter": lambda plan: first_lane(plan).drafter.kind,
    "draft_mode": lambda plan: first_lane(plan).drafter.mode.value,
    "tree_tokens": lambda plan: (tree := first_lane(plan).drafter.tree) and tree.tokens,
    "tree_depth": lambda plan: (tree := first_lane(plan).drafter.tree) and tree.depth,
    "tree_top_k": lambda plan: (tree := first_lane(plan).drafter.tree) and tree.top_k,
    "max_new_tokens": lambda plan: plan.max_new_tokens,
    "sampling_top_k": lambda plan: plan.top_k,
    "sampling_top_p": lambda plan: plan.top_p,
}
_POINT: dict[str, Callable[[Point], Any]] = {
    "temperature": lambda point: point.cell.temperature,
    "k": lambda point: point.cell.k,
    "value": lambda point: point.cell.value,
    "comparisons": lambda point: point.n,
    "speedup_median": lambda point: point.speedup.value,
    "speedup_q1": lambda point: point.speedup.low,
    "speedup_q3": lambda point: point.speedup.high,
    "tokens_per_s_median": lambda point: point.tokens_per_s,
    "strict_tokens_per_s_median": lambda point: point.strict_tokens_per_s,
    "tau": lambda point: point.tau,
    "strict_tau": lambda point: point.strict_tau,
    "tau_ratio": lambda point: point.tau_ratio,
    "differ_share": lambda point: point.differ.value,
    "differ_low95": lambda point: point.differ.low,
    "differ_high95": lambda point: point.differ.high,
    "first_divergence_median": lambda point: point.divergence,
    "relaxed_share": lambda point: point.relaxed_share,
    "tv_mean": lambda point: point.tv,
    "length_ratio": lambda point: point.length_ratio,
    "scored": lambda point: point.scored,
    "score": lambda point: point.score.value,
    "score_low95": lambda point: point.score.low,
    "score_high95": lambda point: point.score.high,
    "strict_score": lambda point: point.strict_score.value,
    "strict_score_low95": lambda point: point.strict_score.low,
    "strict_score_high95": lambda point: point.strict_score.high,
    "score_loss": lambda point: point.score_loss,
}
_PAIR = (
    "comparison", "temperature", "k", "value", "repeat", "strict_tokens_per_s", "tokens_per_s", "speedup", "strict_tokens",
    "tokens", "strict_steps", "steps", "relaxed", "tv_sum", "divergence", "cause", "strict_right", "right",
)  # fmt: skip
POINT_HEADS = ("sweep", *_PLAN, *_POINT, *(f"pareto_{cost}" for cost in Cost))
PAIR_HEADS = ("sweep", "rule", "parameter", *_PAIR, "seed", "prompt", "reference")


def points_table(sweep: Sweep) -> Iterator[Sequence[Any]]:
    """Header, and one row per setting, in the order of the table on the page."""
    found = points(sweep.plan, sweep.pairs)
    best = [frozenset(optimal(found, cost)) for cost in Cost]
    shared = [read(sweep.plan) for read in _PLAN.values()]
    yield POINT_HEADS
    for index, point in enumerate(found):
        yield [sweep.id, *shared, *(read(point) for read in _POINT.values()), *(index in chosen for chosen in best)]


def pairs_table(sweep: Sweep) -> Iterator[Sequence[Any]]:
    """Header, and one row per pair, in the order of ``sweep.pairs``."""
    plan, rule = sweep.plan, first_lane(sweep.plan).rule.name
    yield PAIR_HEADS
    for pair in sweep.pairs:
        numbers, case = (getattr(pair, name) for name in _PAIR), case_of(plan, pair.case)
        yield [sweep.id, rule, plan.varied, *numbers, pair.seed(plan), case.prompt, case.reference]
