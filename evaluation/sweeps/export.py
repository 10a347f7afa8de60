"""A sweep as CSV: one row a setting, or one row a comparison. RFC 4180, numbers raw and unrounded, cells as in the other downloads."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TextIO

from evaluation.sweeps.plan import Plan
from evaluation.sweeps.points import Point, Result, points
from evaluation.sweeps.tradeoff import Cost, optimal
from storage.export import cell

_PLAN: dict[str, Callable[[Plan], Any]] = {
    "pair": lambda plan: plan.pair,
    "rule": lambda plan: plan.rule,
    "parameter": lambda plan: plan.parameter,
    "other_parameters": lambda plan: ", ".join(f"{name}={value:g}" for name, value in plan.others.items()),
    "drafter": lambda plan: plan.drafter.kind,
    "draft_mode": lambda plan: plan.drafter.mode.value,
    "tree_tokens": lambda plan: plan.drafter.tree and plan.drafter.tree.tokens,
    "tree_depth": lambda plan: plan.drafter.tree and plan.drafter.tree.depth,
    "tree_top_k": lambda plan: plan.drafter.tree and plan.drafter.tree.top_k,
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
_RESULT = (
    "comparison", "temperature", "k", "value", "repeat", "strict_tokens_per_s", "tokens_per_s", "speedup", "strict_tokens",
    "tokens", "strict_steps", "steps", "relaxed", "tv_sum", "divergence", "cause", "strict_right", "right",
)  # fmt: skip
POINT_HEADS = ("sweep", *_PLAN, *_POINT, *(f"pareto_{cost}" for cost in Cost))
RESULT_HEADS = ("sweep", "rule", "parameter", *_RESULT, "seed", "prompt", "reference")


def write_points_csv(stream: TextIO, sweep_id: str, plan: Plan, results: Sequence[Result]) -> None:
    """One row a setting, in the order of the table on the page. ``stream`` must be opened with ``newline=""``."""
    found = points(plan, results)
    best = [frozenset(optimal(found, cost)) for cost in Cost]
    shared = [read(plan) for read in _PLAN.values()]
    rows = (
        [sweep_id, *shared, *(read(point) for read in _POINT.values()), *(index in chosen for chosen in best)]
        for index, point in enumerate(found)
    )
    _write(stream, POINT_HEADS, rows)


def write_results_csv(stream: TextIO, sweep_id: str, plan: Plan, results: Sequence[Result]) -> None:
    """One row a comparison, in the order of execution. ``stream`` must be opened with ``newline=""``."""
    _write(stream, RESULT_HEADS, (_result_row(sweep_id, plan, result) for result in results))


def _result_row(sweep_id: str, plan: Plan, result: Result) -> list[Any]:
    case, seed = plan.cases[result.case], plan.seed_of(result.repeat, result.case)
    numbers = (getattr(result, name) for name in _RESULT)
    return [sweep_id, plan.rule, plan.parameter, *numbers, seed, case.prompt, case.reference]


def _write(stream: TextIO, heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    writer = csv.writer(stream)
    writer.writerow(heads)
    writer.writerows([cell(value) for value in row] for row in rows)
