"""A sweep as CSV: one row a setting, or one row a pair. RFC 4180, numbers raw and unrounded, cells as in the other downloads."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TextIO

from evaluation.study.pairs import Paired, Sweep
from evaluation.study.plan import Plan
from evaluation.study.points import Cost, Point, optimal, points
from evaluation.study.sweep import case_of, first_lane, other_parameters
from mars_core.models import CATALOG
from storage.export import cell

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


def write_points_csv(stream: TextIO, sweep: Sweep) -> None:
    """One row a setting, in the order of the table on the page. ``stream`` must be opened with ``newline=""``."""
    found = points(sweep.plan, sweep.pairs)
    best = [frozenset(optimal(found, cost)) for cost in Cost]
    shared = [read(sweep.plan) for read in _PLAN.values()]
    rows = (
        [sweep.id, *shared, *(read(point) for read in _POINT.values()), *(index in chosen for chosen in best)]
        for index, point in enumerate(found)
    )
    _write(stream, POINT_HEADS, rows)


def write_pairs_csv(stream: TextIO, sweep: Sweep) -> None:
    """One row a pair, in the order of ``sweep.pairs``. ``stream`` must be opened with ``newline=""``."""
    _write(stream, PAIR_HEADS, (_pair_row(sweep, pair) for pair in sweep.pairs))


def _pair_row(sweep: Sweep, pair: Paired) -> list[Any]:
    plan, case = sweep.plan, case_of(sweep.plan, pair.case)
    numbers = (getattr(pair, name) for name in _PAIR)
    return [sweep.id, first_lane(plan).rule.name, plan.varied, *numbers, pair.seed(plan), case.prompt, case.reference]


def _write(stream: TextIO, heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    writer = csv.writer(stream)
    writer.writerow(heads)
    writer.writerows([cell(value) for value in row] for row in rows)
