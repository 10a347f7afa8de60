"""A report as files: HTML with its figures, Markdown, and CSV (RFC 4180) of results, measured
numbers and prompts.

``results.csv`` is sufficient to compute the report again: one row per lane of a task.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeVar

from display.render import html, markdown
from evaluation.advise.usage import uses
from evaluation.plan.lane import Lane
from evaluation.plan.plan import PLAN, Plan, read_plan
from evaluation.recovery import PlaceboTest
from evaluation.report.document.build import document
from evaluation.report.document.purpose import measured_of
from evaluation.report.measured import PLACEBOS, Measured, Score
from evaluation.report.rows import LengthRow, PromptRow
from evaluation.report.texts import worst_texts
from evaluation.report.values import Report
from evaluation.scoring.metrics import formats
from evaluation.statistics import McNemar, interval_columns
from evaluation.study.result import LaneResult, Relative, read_relative, read_result
from storage import RunStore, StoredResult
from storage.export import csv_text
from storage.export.cells import finite

GAINS = ("tau", "tau_ratio", "speedup_strict", "speedup")  # of the JSON of a certificate
Row = dict[str, Any]  # cells by column
Record = TypeVar("Record")


def _table(
    row: Callable[[Record | None], Row], records: Iterable[Record]
) -> Iterator[Sequence[Any]]:
    """Yield the header, and the row of every record. ``row``: of None, one with the same
    columns."""
    heads = [*row(None)]
    yield heads
    for record in records:
        cells = row(record)
        yield [cells[head] for head in heads]


def _cells(record: object, kind: type, *without: str, prefix: str = "") -> Row:
    """Return the fields of a record, an interval as three cells; empty ones without a record."""
    cells = Row()
    for field in (each for each in fields(kind) if each.name not in without):
        name, value = prefix + field.name, record and getattr(record, field.name)
        if field.type == "Interval":
            cells |= zip(interval_columns(name), value or (None,) * 3, strict=True)
        else:
            cells[name] = value
    return cells


def results_table(store: RunStore, study_id: str) -> Iterator[Sequence[Any]]:
    """Header, and one row per result, by task and lane.

    Raises StorageError for an unknown study, ValueError for one of another version of this program.
    """
    plan = read_plan(store.study(study_id).plan)
    items = [item for suite in plan.suites for item in suite.items]
    wanted = (name for item in items for name in formats(item))
    metrics = dict.fromkeys([*(m for suite in plan.suites for m in suite.metrics), *wanted])
    lanes = [_lane(plan, number) for number in range(len(plan.lanes))]

    def row(one: StoredResult | None) -> Row:
        task, lane = (one.task, one.lane) if one else (0, 0)
        result = read_result(one.data) if one else None
        relative = read_relative(one.relative) if one and one.relative else None
        scores = result.scores if result else {}
        return {
            "study": study_id,
            **_task(plan, task),
            **lanes[lane],
            "tv_kind": plan.lanes[lane].tv_kind(plan.task(task).temperature),
            **_cells(result, LaneResult, "scores"),
            "score": next(iter(scores.values()), None),
            **{f"score:{metric}": scores.get(metric) for metric in metrics},
            **_cells(relative, Relative),
            **{name: one and getattr(one, name) for name in ("worker", "created_at", "run_ids")},
        }

    return _table(row, store.results(study_id))


def _task(plan: Plan, number: int) -> Row:
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


def _lane(plan: Plan, number: int) -> Row:
    lane = plan.lanes[number]
    drafter, tree = lane.drafter, lane.drafter.tree
    return {
        "lane": number,
        "name": lane.name,
        "rule": lane.rule.name,
        "rule_parameters": dict(lane.rule.parameters),
        "drafter": drafter.kind,
        "drafter_model": drafter.model and drafter.model.name,
        "k": _depth(lane),
        "draft_mode": drafter.mode.value if lane.drafts else None,
        "tree_tokens": tree and tree.tokens,
        "tree_depth": tree and tree.depth,
        "tree_top_k": tree and tree.top_k,
        "baseline_lane": plan.baseline(number),
        "imitated_lane": plan.imitated(number) if lane.imitates else None,
        "best": lane.best,
    }


def _depth(lane: Lane) -> int | None:
    """Return K; None without drafts, and of a tree."""
    return lane.drafter.k if lane.drafts and not lane.drafter.tree else None


def measured_table(report: Report) -> Iterator[Sequence[Any]]:
    """Header, and one row per group, temperature, lane and metric: every number of the report with
    its interval."""

    def row(pair: tuple[Measured, Score | None] | None) -> Row:
        measured, score = pair or (None, None)
        cells = {
            "study": report.id,
            "margin": report.plan.margin,
            "equivalence": report.plan.equivalence,
            **_cells(measured, Measured, "scores"),
            **_names_of(report, measured),
            **_cells(score, Score, "mcnemar", "placebos"),
            **_cells(score and score.mcnemar, McNemar),
        }
        for kind in PLACEBOS:
            test = score and score.placebos.get(kind)
            cells |= _cells(test, PlaceboTest, prefix=f"{kind}_")
            cells[f"{kind}_outcome"] = test and test.outcome
        return cells

    rows = report.measured
    return _table(row, ((row, score) for row in rows for score in row.scores.values() or (None,)))


def prompts_table(report: Report) -> Iterator[Sequence[Any]]:
    """Header, and one row per prompt, lane and temperature, worst first."""

    def row(prompt: PromptRow | None) -> Row:
        runs = prompt.worst if prompt else ("", "")
        return {
            "study": report.id,
            **_names_of(report, prompt),
            **_cells(prompt, PromptRow),
            **dict(zip(("baseline_run", "run"), runs, strict=True)),
        }

    return _table(row, report.prompts)


def matrix_table(report: Report) -> Iterator[Sequence[Any]]:
    """Header, and one row per category, prompt length and lane with its K: τ and speed."""

    def row(length: LengthRow | None) -> Row:
        cells = _cells(length, LengthRow)
        return {
            "study": report.id,
            "category": cells.pop("group"),
            "prompt_tokens_at_most": cells.pop("length"),
            "temperature": cells.pop("temperature"),
            **_names_of(report, length),
            "k": _depth(report.plan.lanes[cells.pop("lane") or 0]),
            "prompts": cells.pop("prompts"),
            "runs": cells.pop("runs"),
            "prompt_tokens": cells.pop("read"),
            **cells,
        }

    return _table(row, report.lengths)


def _names_of(report: Report, row: Measured | PromptRow | LengthRow | None) -> Row:
    lane = report.plan.lanes[row.lane] if row else None
    return {
        "name": lane and lane.name,
        "drafts": lane and lane.drafts,
        "tv_kind": lane and row and lane.tv_kind(row.temperature),
    }


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
