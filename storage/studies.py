"""Studies in the database: the plan, how far it has come, its deletion. Knows no plan's form; opens no transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    JSON,
    ColumnElement,
    Connection,
    delete,
    func,
    insert,
    literal,
    not_,
    select,
    type_coerce,
    update,
)

from storage.claims import check_study, lock_study
from storage.database import clock
from storage.errors import StorageError
from storage.notes import checked_name
from storage.records import new_id
from storage.schema import Comparison
from storage.scope import scope_of
from storage.study_schema import Study, StudyResult, StudyTask

MOST_TASKS = 1_000_000
COMPARISONS_A_WRITE = 500


@dataclass(frozen=True, slots=True)
class StudyHead:
    """A study in a list. ``tasks``: how many there are; ``done``: how many of them are finished."""

    id: str
    created_at: datetime
    name: str
    tasks: int
    done: int


@dataclass(frozen=True, slots=True)
class StoredStudy:
    """A study with its plan, as it was saved."""

    id: str
    created_at: datetime
    name: str
    plan: dict[str, Any]
    tasks: int
    done: int


@dataclass(frozen=True, slots=True)
class WorkerProgress:
    """What one worker has done. ``results``: lanes of tasks; ``claimed``: it works on a task, and its lease lasts."""

    worker: str
    results: int
    first_at: datetime | None  # when its first result was saved, by the database's clock
    last_at: datetime | None
    claimed: bool


@dataclass(frozen=True, slots=True)
class StudyProgress:
    """How far a study has come. ``results``: lanes that were saved, those of unfinished tasks included; ``workers``: by name."""

    tasks: int
    done: int
    results: int
    workers: tuple[WorkerProgress, ...]


def add_study(connection: Connection, name: str, plan: Mapping[str, Any], tasks: int) -> str:
    """Raises StorageError for a name that is too long and for a number of tasks out of range."""
    if not 1 <= tasks <= MOST_TASKS:
        raise StorageError(f"tasks is {tasks}; it must be 1 to {MOST_TASKS:,}.")
    study_id = new_id()
    row = {"id": study_id, "created_at": clock(connection), "name": checked_name(name), "tasks": tasks, "plan": plan}
    row["owner"] = scope_of(connection).owner
    connection.execute(insert(Study), row)
    numbers = select(literal(0).label("task")).cte("numbers", recursive=True)
    numbers = numbers.union_all(select(numbers.c.task + 1).where(numbers.c.task + 1 < tasks))
    each = select(literal(study_id), numbers.c.task)
    connection.execute(insert(StudyTask).from_select(["study_id", "task"], each))
    return study_id


def load_study(connection: Connection, study_id: str) -> StoredStudy:
    check_study(connection, study_id)
    columns = (Study.id, Study.created_at, Study.name, Study.plan, Study.tasks, _done())
    return StoredStudy(*connection.execute(select(*columns).where(Study.id == study_id)).one())


def is_sweep() -> ColumnElement[bool]:
    """Whether a study varies a parameter as a sweep does: its plan then names it, if only by an empty text."""
    named: ColumnElement[bool] = type_coerce(Study.plan, JSON)["varied"].as_string().is_not(None)
    return named


def latest_studies(connection: Connection, limit: int, sweeps: bool) -> tuple[StudyHead, ...]:
    """Latest first, without their plans. ``sweeps``: only these, else all others."""
    statement = select(Study.id, Study.created_at, Study.name, Study.tasks, _done())
    statement = statement.where(is_sweep() if sweeps else not_(is_sweep()), *scope_of(connection).studies())
    rows = connection.execute(statement.order_by(Study.created_at.desc(), Study.id.desc()).limit(limit))
    return tuple(StudyHead(*row) for row in rows)


def progress(connection: Connection, study_id: str) -> StudyProgress:
    check_study(connection, study_id)
    tasks, done = connection.execute(select(Study.tasks, _done()).where(Study.id == study_id)).one()
    saved = StudyResult.created_at
    counted = select(StudyResult.worker, func.count(), func.min(saved), func.max(saved))
    counted = counted.where(StudyResult.study_id == study_id).group_by(StudyResult.worker)
    rows = connection.execute(counted).all()
    live = select(StudyTask.worker).where(
        StudyTask.study_id == study_id, StudyTask.done_at.is_(None), StudyTask.claimed_until >= clock(connection)
    )
    busy = {worker for worker in connection.execute(live).scalars() if worker is not None}
    workers = [WorkerProgress(*row, row[0] in busy) for row in rows]
    workers += [WorkerProgress(worker, 0, None, None, True) for worker in busy - {row[0] for row in rows}]
    workers.sort(key=lambda each: each.worker)
    return StudyProgress(tasks, done, sum(worker.results for worker in workers), tuple(workers))


def delete_study(connection: Connection, study_id: str) -> None:
    """Remove plan, tasks, results and judgements; the comparisons are put away, as ``delete_comparison`` does."""
    lock_study(connection, study_id)
    tasks = select(StudyTask.comparison_ids).where(StudyTask.study_id == study_id)
    made = [id_ for ids in connection.execute(tasks.with_for_update()).scalars() for id_ in ids]
    mark = update(Comparison).where(Comparison.deleted_at.is_(None)).values(deleted_at=clock(connection))
    for start in range(0, len(made), COMPARISONS_A_WRITE):
        connection.execute(mark.where(Comparison.id.in_(made[start : start + COMPARISONS_A_WRITE])))
    connection.execute(delete(Study).where(Study.id == study_id))


def _done() -> ColumnElement[int]:
    """How many tasks are done: those that are not open, of which there is an index."""
    still = select(func.count()).where(StudyTask.study_id == Study.id, StudyTask.done_at.is_(None))
    return (Study.tasks - still.correlate(Study).scalar_subquery()).label("done")
