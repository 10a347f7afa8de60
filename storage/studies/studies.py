"""Studies: plans, progress and deletion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
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
from storage.runs.comparisons import checked
from storage.runs.index import reindex
from storage.schema import ComparisonRow, Study, StudyResult, StudyTask
from storage.scope import batches, check_page, new_id, row_of
from storage.studies.claims import lock_study

MAX_TASKS = 1_000_000


@dataclass(frozen=True, slots=True)
class StudyHead:
    """A study in a list. ``tasks``: number of tasks; ``done``: number of finished ones."""

    id: str
    created_at: datetime
    name: str
    tasks: int
    done: int


@dataclass(frozen=True, slots=True)
class StoredStudy:
    """A study with its plan."""

    id: str
    created_at: datetime
    name: str
    plan: dict[str, Any]
    tasks: int
    done: int


@dataclass(frozen=True, slots=True)
class WorkerProgress:
    """Progress of one worker. ``results``: lanes of tasks; ``claimed``: whether it has a valid
    claim on a task."""

    worker: str
    results: int
    first_at: datetime | None  # when its first result was saved, by the database's clock
    last_at: datetime | None
    claimed: bool


@dataclass(frozen=True, slots=True)
class StudyProgress:
    """Progress of a study. ``results``: saved lanes, including those of unfinished tasks;
    ``workers``: by name."""

    tasks: int
    done: int
    results: int
    workers: tuple[WorkerProgress, ...]


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
        """A study with its plan."""
        columns = (Study.id, Study.created_at, Study.name, Study.plan, Study.tasks, _done())
        with self.read() as connection:
            return StoredStudy(**row_of(connection, Study, study_id, *columns))

    def studies(self, limit: int = 50) -> tuple[StudyHead, ...]:
        """The latest studies, latest first, without their plans."""
        check_page(limit)
        statement = select(Study.id, Study.created_at, Study.name, Study.tasks, _done())
        statement = statement.where(*self.scope.of(Study))
        with self.read() as connection:
            rows = connection.execute(
                statement.order_by(Study.created_at.desc(), Study.id.desc()).limit(limit)
            )
            return tuple(StudyHead(*row) for row in rows)

    def study_progress(self, study_id: str) -> StudyProgress:
        """Progress of a study and of each worker."""
        saved = StudyResult.created_at
        counted = select(StudyResult.worker, func.count(), func.min(saved), func.max(saved))
        counted = counted.where(StudyResult.study_id == study_id).group_by(StudyResult.worker)
        working = select(StudyTask.worker).where(
            StudyTask.study_id == study_id, StudyTask.done_at.is_(None)
        )
        with self.read() as connection:
            study = row_of(connection, Study, study_id, Study.tasks, _done())
            rows = connection.execute(counted).all()
            live = connection.scalars(working.where(StudyTask.claimed_until >= clock(connection)))
            busy = {worker for worker in live if worker is not None}
        workers = [WorkerProgress(*row, row[0] in busy) for row in rows]
        workers += [
            WorkerProgress(worker, 0, None, None, True)
            for worker in busy - {row[0] for row in rows}
        ]
        workers.sort(key=lambda each: each.worker)
        return StudyProgress(
            **study, results=sum(worker.results for worker in workers), workers=tuple(workers)
        )

    def delete_study(self, study_id: str) -> None:
        """Permanently remove a study; its comparisons are deleted and can be restored. Its workers
        lose their claims."""
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
    """The number of done tasks: those that are not open, which are indexed."""
    unfinished = select(func.count()).where(
        StudyTask.study_id == Study.id, StudyTask.done_at.is_(None)
    )
    return (Study.tasks - unfinished.correlate(Study).scalar_subquery()).label("done")
