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
from storage import RunStore
from storage.export import cell
from storage.results import StoredResult

TASK = ("study", "task", "suite", "category", "item", "repeat", "seed", "temperature")
LANE = (
    "lane", "name", "rule", "rule_parameters", "drafter", "drafter_model", "k", "draft_mode", "tree_tokens", "tree_depth", "tree_top_k",
    "baseline_lane",
)  # fmt: skip
RESULT = tuple(field.name for field in fields(Result) if field.name != "scores")
RELATIVE = tuple(field.name for field in fields(Relative))
END = ("worker", "created_at", "run_ids")
_MEASURED = tuple(field.name for field in fields(Measured) if field.name != "scores")
_SCORE = tuple(field.name for field in fields(Score) if field.name not in ("mcnemar", "verdict"))
_INTERVALS = frozenset(
    field.name for kind in (Measured, Score) for field in fields(kind) if field.type in ("Interval", Interval)
)
_TEST = tuple(field.name for field in fields(McNemar))
_VERDICT = ("margin", "outcome", "needed")
_PROMPT = tuple(field.name for field in fields(PromptRow) if field.name != "worst")


def write_results_csv(store: RunStore, study_id: str, stream: TextIO) -> None:
    """One row a result of the finished tasks, by task and lane. ``stream`` must be opened with ``newline=""``.

    Raises StorageError for an unknown study, ValueError for one of another version of this program.
    """
    plan = read_plan(store.study(study_id).plan)
    metrics = tuple(dict.fromkeys(metric for suite in plan.suites for metric in suite.metrics))
    heads = (*TASK, *LANE, *RESULT, *(f"score:{metric}" for metric in metrics), *RELATIVE, *END)
    lanes = [_lane(plan, number) for number in range(len(plan.lanes))]
    rows = (
        [study_id, *_task(plan, found.task), *lanes[found.lane], *_result(found, metrics)]
        for found in store.results(study_id)
    )
    _write(stream, heads, rows)


def _task(plan: Plan, number: int) -> list[Any]:
    task = plan.task(number)
    item = plan.item(task)
    suite = plan.suites[task.suite].name
    return [number, suite, item.category, item.id, task.repeat, plan.seed_of(task), task.temperature]


def _lane(plan: Plan, number: int) -> list[Any]:
    lane = plan.lanes[number]
    drafter, tree = lane.drafter, lane.drafter.tree
    shape = [tree.tokens, tree.depth, tree.top_k] if tree else [None] * 3
    model = drafter.model.name if drafter.model else None
    chain = [None, None] if tree or not lane.drafts else [drafter.k, drafter.mode.value]
    return [
        number, lane.name, lane.rule.name, dict(lane.rule.parameters), drafter.kind, model, *chain, *shape, plan.baseline(number),
    ]  # fmt: skip


def _result(found: StoredResult, metrics: Sequence[str]) -> Iterator[Any]:
    result = read_result(found.data)
    yield from (_plain(getattr(result, name)) for name in RESULT)
    yield from (result.scores.get(metric) for metric in metrics)
    relative = read_relative(found.relative) if found.relative is not None else None
    yield from (getattr(relative, name) if relative else None for name in RELATIVE)
    yield from (found.worker, found.created_at, list(found.run_ids))


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def write_measured_csv(report: Report, stream: TextIO) -> None:
    """One row a group, temperature, lane and metric: every number of the report with its interval. ``stream`` as above."""
    heads = ["study", *_spread(_MEASURED), "name", "drafts", *_spread(_SCORE), *_TEST, *_VERDICT]
    _write(stream, heads, (row for measured in report.measured for row in _measured(report, measured)))


def _spread(names: Iterable[str]) -> list[str]:
    """An interval has three columns."""
    return [
        part for name in names for part in ((name, f"{name}_low", f"{name}_high") if name in _INTERVALS else (name,))
    ]


def _measured(report: Report, measured: Measured) -> Iterator[list[Any]]:
    lane = report.plan.lanes[measured.lane]
    values = [report.id, *_values(measured, _MEASURED), lane.name, lane.drafts]
    blank = [None] * (len(_spread(_SCORE)) + len(_TEST) + len(_VERDICT))
    if not measured.scores:
        yield values + blank
    for score in measured.scores.values():
        yield [*values, *_values(score, _SCORE), *_parts(score.mcnemar, _TEST), *_parts(score.verdict, _VERDICT)]


def _values(holder: Measured | Score, names: Iterable[str]) -> list[Any]:
    found: list[Any] = []
    for name in names:
        value = getattr(holder, name)
        found += list(value) if isinstance(value, Interval) else [_plain(value)]
    return found


def _parts(holder: McNemar | Verdict | None, names: Iterable[str]) -> list[Any]:
    return [None if holder is None else getattr(holder, name) for name in names]


def write_prompts_csv(report: Report, stream: TextIO) -> None:
    """One row a prompt, lane and temperature, worst first. ``stream`` as above."""
    heads = ("study", "name", "drafts", *_PROMPT, "baseline_run", "run")
    _write(stream, heads, (_prompt(report, row) for row in report.prompts))


def _prompt(report: Report, row: PromptRow) -> list[Any]:
    lane = report.plan.lanes[row.lane]
    return [report.id, lane.name, lane.drafts, *(getattr(row, name) for name in _PROMPT), *row.worst]


def _write(stream: TextIO, heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    writer = csv.writer(stream)
    writer.writerow(heads)
    writer.writerows([cell(dict(value) if isinstance(value, Mapping) else value) for value in row] for row in rows)
