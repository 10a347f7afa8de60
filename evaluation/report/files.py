"""A report as files: HTML with its figures, Markdown, and CSV (RFC 4180) of results, measured
numbers and prompts.

``results.csv`` is sufficient to compute the report again: one row per lane of a task.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, fields
from itertools import chain
from pathlib import Path
from typing import Any

from display.render import html, markdown
from evaluation.advise.usage import uses
from evaluation.plan.plan import PLAN, Plan, read_plan
from evaluation.recovery import PlaceboTest
from evaluation.report.document.build import document
from evaluation.report.document.purpose import measured_of
from evaluation.report.measured import PLACEBOS, Measured, Score
from evaluation.report.rows import LengthRow, PromptRow
from evaluation.report.texts import worst_texts
from evaluation.report.values import Report
from evaluation.scoring.metrics import formats
from evaluation.statistics import Interval, McNemar, interval_columns
from evaluation.study.result import LaneResult, Relative, read_relative, read_result
from mars_core.types import ShiftKind
from storage import RunStore, StoredResult
from storage.export import csv_text
from storage.export.cells import finite

LANE_NAMES = ("name", "drafts", "tv_kind")
GAINS = ("tau", "tau_ratio", "speedup_strict", "speedup")  # of the JSON of a certificate
END = ("worker", "created_at", "run_ids")


def _heads(kind: type, *without: str) -> list[str]:
    """Return the columns of a record: its fields, of an interval three."""
    every = ((field.name, field.type) for field in fields(kind) if field.name not in without)
    columns = (interval_columns(name) if type_ == "Interval" else (name,) for name, type_ in every)
    return [*chain(*columns)]


def _cells(record: object, kind: type, *without: str) -> list[Any]:
    """Return the cells of a record under ``_heads``; empty ones without a record."""
    if record is None:
        return [None] * len(_heads(kind, *without))
    values = (getattr(record, field.name) for field in fields(kind) if field.name not in without)
    return [*chain(*(each if isinstance(each, Interval) else (each,) for each in values))]


def results_table(store: RunStore, study_id: str) -> Iterator[Sequence[Any]]:
    """Header, and one row per result, by task and lane.

    Raises StorageError for an unknown study, ValueError for one of another version of this program.
    """
    plan = read_plan(store.study(study_id).plan)
    items = [item for suite in plan.suites for item in suite.items]
    wanted = (name for item in items for name in formats(item))
    metrics = tuple(dict.fromkeys([*(m for suite in plan.suites for m in suite.metrics), *wanted]))
    lanes = [_lane(plan, number) for number in range(len(plan.lanes))]
    names = ("score", *(f"score:{metric}" for metric in metrics))
    own, relative = _heads(LaneResult, "scores"), _heads(Relative)
    yield ("study", *_task(plan, 0), *lanes[0], "tv_kind", *own, *names, *relative, *END)
    for one in store.results(study_id):
        task, lane = _task(plan, one.task), lanes[one.lane]
        kind = plan.lanes[one.lane].tv_kind(task["temperature"])
        yield [study_id, *task.values(), *lane.values(), kind, *_result(one, metrics)]


def _task(plan: Plan, number: int) -> dict[str, Any]:
    """Return its cells by column."""
    task = plan.task(number)
    item = plan.item(task)
    return {
        "task": number,
        "suite": plan.suites[task.suite].name,
        "category": item.category,
        "template": item.template,
        "item": item.id,
        "repeat": task.repeat,
        "seed": plan.seed_of(task),
        "temperature": task.temperature,
    }


def _lane(plan: Plan, number: int) -> dict[str, Any]:
    """Return its cells by column."""
    lane = plan.lanes[number]
    drafter, tree = lane.drafter, lane.drafter.tree
    return {
        "lane": number,
        "name": lane.name,
        "rule": lane.rule.name,
        "rule_parameters": dict(lane.rule.parameters),
        "drafter": drafter.kind,
        "drafter_model": drafter.model and drafter.model.name,
        "k": drafter.k if lane.drafts and not tree else None,
        "draft_mode": drafter.mode.value if lane.drafts else None,
        "tree_tokens": tree and tree.tokens,
        "tree_depth": tree and tree.depth,
        "tree_top_k": tree and tree.top_k,
        "baseline_lane": plan.baseline(number),
        "imitated_lane": plan.imitated(number) if lane.imitates else None,
        "best": lane.best,
    }


def _result(stored: StoredResult, metrics: Sequence[str]) -> Iterator[Any]:
    result = read_result(stored.data)
    relative = read_relative(stored.relative) if stored.relative else None
    yield from _cells(result, LaneResult, "scores")
    yield next(iter(result.scores.values()), None)
    yield from map(result.scores.get, metrics)
    yield from _cells(relative, Relative)
    yield from (stored.worker, stored.created_at, stored.run_ids)


def measured_table(report: Report) -> Iterator[Sequence[Any]]:
    """Header, and one row per group, temperature, lane and metric: every number of the report with
    its interval."""
    apart = "mcnemar", "placebos"  # of a score
    tested = (*_heads(PlaceboTest), "outcome")
    placebo = [f"{kind}_{name}" for kind in PLACEBOS for name in tested]
    heads = _heads(Measured, "scores"), LANE_NAMES, _heads(Score, *apart), _heads(McNemar), placebo
    yield ["study", "margin", "equivalence", *chain(*heads)]
    plan = report.plan.margin, report.plan.equivalence
    for row in report.measured:
        values = [report.id, *plan, *_cells(row, Measured, "scores"), *_names_of(report, row)]
        for score in row.scores.values() or (None,):
            tests = [score and score.placebos.get(kind) for kind in PLACEBOS]
            yield [
                *values,
                *_cells(score, Score, *apart),
                *_cells(score and score.mcnemar, McNemar),
                *chain(*((*_cells(each, PlaceboTest), each and each.outcome) for each in tests)),
            ]


def prompts_table(report: Report) -> Iterator[Sequence[Any]]:
    """Header, and one row per prompt, lane and temperature, worst first."""
    yield ("study", *LANE_NAMES, *_heads(PromptRow), "baseline_run", "run")
    for row in report.prompts:
        yield [report.id, *_names_of(report, row), *_cells(row, PromptRow), *row.worst]


def matrix_table(report: Report) -> Iterator[Sequence[Any]]:
    """Header, and one row per category, prompt length and lane with its K: τ and speed."""
    heads = "study", "category", "prompt_tokens_at_most", "temperature", *LANE_NAMES, "k"
    measured = chain(*map(interval_columns, ("tau", "tokens_per_s", "over_none")))
    yield (*heads, "prompts", "runs", "prompt_tokens", *measured)
    for row in report.lengths:
        lane = report.plan.lanes[row.lane]
        k = lane.drafter.k if lane.drafts and not lane.drafter.tree else None
        place = [report.id, row.group, row.length, row.temperature, *_names_of(report, row), k]
        numbers = row.prompts, row.runs, row.read, *row.tau, *row.tokens_per_s, *row.over_none
        yield [*place, *numbers]


def _names_of(report: Report, row: Measured | PromptRow | LengthRow) -> tuple[str, str, ShiftKind]:
    """Under ``LANE_NAMES``."""
    lane = report.plan.lanes[row.lane]
    return lane.name, lane.drafts, lane.tv_kind(row.temperature)


TABLES: dict[str, Callable[[RunStore, Report], Iterator[Sequence[Any]]]] = {
    "results.csv": lambda store, report: results_table(store, report.id),
    "measured.csv": lambda _, report: measured_table(report),
    "prompts.csv": lambda _, report: prompts_table(report),
    "matrix.csv": lambda _, report: matrix_table(report),
}


def purpose_json(report: Report) -> str:
    """Write the certificate of a study, and its chosen setting with its gain, as one JSON
    object."""
    certificate = report.certificate
    assert certificate is not None
    values: dict[str, Any] = {
        "study": report.id,
        "certificate": asdict(certificate),
        "chosen": None,
    }
    if chosen := certificate.chosen:
        lane, row = report.plan.lanes[chosen.lane], measured_of(report, chosen.lane)
        gain = {name: getattr(row, name)._asdict() for name in GAINS}
        values["chosen"] = {
            "rule": lane.rule.name,
            "parameters": dict(lane.rule.parameters),
            "drafter": lane.drafts,
            "gain": gain,
            "use": uses(report.plan, lane),
        }
    return json.dumps(finite(values), ensure_ascii=False)


def write_report(store: RunStore, report: Report, folder: Path) -> tuple[Path, ...]:
    """Write ``report.html``, ``report.md``, ``results.csv``, ``measured.csv``, ``prompts.csv``,
    ``matrix.csv`` and the plan; return their paths.

    Raises OSError where they cannot be written.
    """
    written = write_markdown(report, folder / "report.md", store)
    for name, table in TABLES.items():
        (folder / name).write_text(csv_text(table(store, report)), encoding="utf-8", newline="")
    plan = folder / PLAN
    plan.write_text(json.dumps(store.study(report.id).plan, indent=1), encoding="utf-8")
    return *written, plan, *(folder / name for name in TABLES)


def write_markdown(report: Report, path: Path, store: RunStore) -> tuple[Path, ...]:
    """Write a report as Markdown, and beside it as HTML, which has its figures; return both
    paths."""
    full, page = document(report, worst_texts(store, report)), path.with_suffix(".html")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(markdown(full, page.name), encoding="utf-8")
    page.write_text(html(full), encoding="utf-8")
    return path, page


def markdown_of(report: Report) -> str:
    """Write Markdown alone, without texts and figures, for a terminal."""
    return markdown(document(report, None))
