"""A study as CSV: every result with all that its statistics rest on, every measured number, every prompt. RFC 4180, cells as elsewhere.

``results.csv`` alone is enough to compute the report again: one row a lane of a finished task.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, TextIO

from evaluation.report.values import Interval, McNemar, Measured, PromptRow, Report, Score, Verdict
from evaluation.study.plan import Plan, read_plan
from evaluation.study.result import Relative, Result, read_relative, read_result
from storage import RunStore, StoredResult
from storage.export import cell

TASK = ("study", "task", "suite", "category", "item", "repeat", "seed", "temperature")
LANE = (
    "lane", "name", "rule", "rule_parameters", "drafter", "drafter_model", "k", "draft_mode", "tree_tokens", "tree_depth", "tree_top_k",
    "baseline_lane",
)  # fmt: skip
END = ("worker", "created_at", "run_ids")


def _names(kind: type, *without: str) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if field.name not in without)


RESULT, RELATIVE = _names(Result, "scores"), _names(Relative)
_MEASURED, _SCORE = _names(Measured, "scores"), _names(Score, "mcnemar", "verdict")
_TEST, _VERDICT, _PROMPT = _names(McNemar), _names(Verdict, "sentence"), _names(PromptRow, "worst")
_INTERVALS = {each.name for kind in (Measured, Score) for each in fields(kind) if each.type in ("Interval", Interval)}


def write_results_csv(store: RunStore, study_id: str, stream: TextIO) -> None:
    """One row a result of the finished tasks, by task and lane. ``stream`` must be opened with ``newline=""``.

    Raises StorageError for an unknown study, ValueError for one of another version of this program.
    """
    plan = read_plan(store.study(study_id).plan)
    metrics = tuple(dict.fromkeys(metric for suite in plan.suites for metric in suite.metrics))
    lanes = [_lane(plan, number) for number in range(len(plan.lanes))]
    heads = (*TASK, *LANE, *RESULT, *(f"score:{metric}" for metric in metrics), *RELATIVE, *END)
    results = store.results(study_id)
    rows = ([study_id, *_task(plan, one.task), *lanes[one.lane], *_result(one, metrics)] for one in results)
    _write(stream, heads, rows)


def _task(plan: Plan, number: int) -> list[Any]:
    task = plan.task(number)
    item, suite = plan.item(task), plan.suites[task.suite].name
    return [number, suite, item.category, item.id, task.repeat, plan.seed_of(task), task.temperature]


def _lane(plan: Plan, number: int) -> list[Any]:
    lane = plan.lanes[number]
    drafter, tree = lane.drafter, lane.drafter.tree
    shape = [tree.tokens, tree.depth, tree.top_k] if tree else [None] * 3
    chain = [None, None] if tree or not lane.drafts else [drafter.k, drafter.mode.value]
    drafts = [drafter.kind, drafter.model.name if drafter.model else None, *chain, *shape]
    return [number, lane.name, lane.rule.name, dict(lane.rule.parameters), *drafts, plan.baseline(number)]


def _result(stored: StoredResult, metrics: Sequence[str]) -> Iterator[Any]:
    result = read_result(stored.data)
    yield from _values(result, RESULT)
    yield from map(result.scores.get, metrics)
    yield from _values(None if stored.relative is None else read_relative(stored.relative), RELATIVE)
    yield from (stored.worker, stored.created_at, stored.run_ids)


def write_measured_csv(report: Report, stream: TextIO) -> None:
    """One row a group, temperature, lane and metric: every number of the report with its interval. ``stream`` as above."""
    heads = ["study", *_spread(_MEASURED), "name", "drafts", *_spread(_SCORE), *_TEST, *_VERDICT]
    _write(stream, heads, (row for measured in report.measured for row in _measured(report, measured)))


def _spread(names: Iterable[str]) -> list[str]:
    """An interval has three columns."""
    ends = {name: (name, f"{name}_low", f"{name}_high") for name in _INTERVALS}
    return [column for name in names for column in ends.get(name, (name,))]


def _measured(report: Report, measured: Measured) -> Iterator[list[Any]]:
    lane = report.plan.lanes[measured.lane]
    values = [report.id, *_values(measured, _MEASURED), lane.name, lane.drafts]
    if not measured.scores:
        yield values + [None] * (len(_spread(_SCORE)) + len(_TEST) + len(_VERDICT))
    for score in measured.scores.values():
        yield [*values, *_values(score, _SCORE), *_values(score.mcnemar, _TEST), *_values(score.verdict, _VERDICT)]


def _values(record: object, names: Sequence[str]) -> list[Any]:
    """Fields of a record, intervals in three cells; empty cells where there is no record."""
    values = [None if record is None else getattr(record, name) for name in names]
    return [each for value in values for each in (value if isinstance(value, Interval) else (value,))]


def write_prompts_csv(report: Report, stream: TextIO) -> None:
    """One row a prompt, lane and temperature, worst first. ``stream`` as above."""
    lanes = report.plan.lanes
    rows = (
        [report.id, lanes[row.lane].name, lanes[row.lane].drafts, *_values(row, _PROMPT), *row.worst]
        for row in report.prompts
    )
    _write(stream, ("study", "name", "drafts", *_PROMPT, "baseline_run", "run"), rows)


def _write(stream: TextIO, heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    writer = csv.writer(stream)
    writer.writerow(heads)
    writer.writerows([cell(_plain(value)) for value in row] for row in rows)


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else list(value) if isinstance(value, tuple) else value
