"""Studies: plans, progress and deletion."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    delete,
    func,
    insert,
    literal,
    select,
    update,
)

from storage.connection import Connected
from storage.database import clock
from storage.errors import StorageError
from storage.index import reindex
from storage.runs.comparisons import checked
from storage.schema import ComparisonRow, Study, StudyResult, StudyTask
from storage.scope import batches, check_page, new_id, row_of

MAX_TASKS = 1_000_000
PACE_S = 300.0  # "of late"
PATIENCE_S = 60.0  # longer for workers, which have expensive results to lose


@dataclass(frozen=True, slots=True)
class StudyHead:
    """A study in a list. ``tasks``: number of tasks; ``done``: number of finished ones."""

    id: str
    created_at: datetime
    name: str
    tasks: int
    done: int


@dataclass(frozen=True, slots=True)
class StoredStudy(StudyHead):
    """A study with its plan."""

    plan: dict[str, Any]


@dataclass(frozen=True, slots=True)
class StudyProgress:
    """Progress of a study. ``results``: saved lanes, including those of unfinished tasks;
    ``pace``: how many a second of late, nan for fewer than two; ``working``: whether somebody works
    on it."""

    tasks: int
    done: int
    results: int
    pace: float = math.nan
    working: bool = False


class Studies(Connected):
    """Every method is one short transaction, and raises StorageError for an unknown study."""

    def new_study(self, name: str, plan: Mapping[str, Any], tasks: int) -> str:
        """Save a plan of 1 to 1,000,000 tasks, all open; returns its id. The name has at most 200
        characters."""
        with self._write("The study was not saved") as connection:
            if not 1 <= tasks <= MAX_TASKS:
                raise StorageError(f"tasks is {tasks}; it must be 1 to {MAX_TASKS:,}.")
            study_id = new_id()
            row = {
                "id": study_id,
                "created_at": clock(connection),
                "name": checked("name", name.strip()),
                "tasks": tasks,
            }
            connection.execute(insert(Study), row | {"plan": plan, "owner": self.scope.owner})
            numbers = select(literal(0).label("task")).cte("numbers", recursive=True)
            numbers = numbers.union_all(
                select(numbers.c.task + 1).where(numbers.c.task + 1 < tasks)
            )
            each = select(literal(study_id), numbers.c.task)
            connection.execute(insert(StudyTask).from_select(["study_id", "task"], each))
            return study_id

    def study(self, study_id: str) -> StoredStudy:
        """Return a study with its plan."""
        columns = (Study.id, Study.created_at, Study.name, Study.plan, Study.tasks, _done())
        with self._naming(f"study {study_id}"), self.read() as connection:
            return StoredStudy(**row_of(connection, Study, study_id, *columns))

    def studies(self, limit: int = 50) -> tuple[StudyHead, ...]:
        """Return the latest studies, latest first, without their plans."""
        check_page(limit)
        heads = select(Study.id, Study.created_at, Study.name, Study.tasks, _done())
        heads = heads.where(*self.scope.of(Study))
        latest = heads.order_by(Study.created_at.desc(), Study.id.desc()).limit(limit)
        return tuple(self.rows(latest, Study.id, "study", lambda row: StudyHead(**row)))

    def study_progress(self, study_id: str) -> StudyProgress:
        saved = StudyResult.created_at
        with self.read() as connection:
            now = clock(connection)
            working = func.coalesce(Study.working_until >= now, False).label("working")
            study = row_of(connection, Study, study_id, Study.tasks, _done(), working)
            counted = select(func.count()).where(StudyResult.study_id == study_id)
            results = connection.execute(counted).scalar_one()
            late = counted.add_columns(func.min(saved), func.max(saved))
            late = late.where(saved >= now - timedelta(seconds=PACE_S))
            count, first, last = connection.execute(late).one()
        seconds = (last - first).total_seconds() if count else 0.0
        pace = (count - 1) / seconds if seconds else math.nan
        return StudyProgress(**study, results=results, pace=pace)

    def open_tasks(self, study_id: str) -> tuple[int, ...]:
        """Return the tasks that are not done, by number."""
        statement = select(StudyTask.task).filter_by(study_id=study_id, done_at=None)
        with self.read() as connection:
            row_of(connection, Study, study_id)
            return tuple(connection.scalars(statement.order_by(StudyTask.task)))

    def work_on(self, study_id: str, seconds: float) -> None:
        """Say that somebody works on the study for so long from now; 0: nobody any more."""
        with self._write("The study was not changed", PATIENCE_S) as connection:
            row_of(connection, Study, study_id)
            until = clock(connection) + timedelta(seconds=seconds) if seconds else None
            change = update(Study).where(Study.id == study_id)
            connection.execute(change.values(working_until=until))

    def delete_study(self, study_id: str) -> None:
        """Permanently remove a study; its comparisons are deleted and can be restored."""
        with self._write("The study was not deleted") as connection:
            lock_study(connection, study_id)
            tasks = select(StudyTask.comparison_ids).where(StudyTask.study_id == study_id)
            ids_of_study = [
                id_ for ids in connection.scalars(tasks.with_for_update()) for id_ in ids
            ]
            mark = (
                update(ComparisonRow)
                .where(ComparisonRow.deleted_at.is_(None))
                .values(deleted_at=clock(connection))
            )
            for some in batches(ids_of_study):
                connection.execute(mark.where(ComparisonRow.id.in_(some)))
                reindex(connection, some)
            connection.execute(delete(Study).where(Study.id == study_id))


def _done() -> ColumnElement[int]:
    """Return the number of done tasks: those that are not open, which are indexed."""
    unfinished = select(func.count()).where(
        StudyTask.study_id == Study.id, StudyTask.done_at.is_(None)
    )
    return (Study.tasks - unfinished.correlate(Study).scalar_subquery()).label("done")


def lock_study(connection: Connection, study_id: str) -> None:
    """Serialises changes of many tasks of a study, to avoid deadlocks."""
    row_of(connection, Study, study_id)
    connection.execute(select(Study.id).where(Study.id == study_id).with_for_update())
