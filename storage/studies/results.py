"""Results of a study: saved with their runs, read fast, judged by a language model, removed for
another try."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import (
    JSON,
    Connection,
    RowMapping,
    Select,
    delete,
    insert,
    select,
    tuple_,
    type_coerce,
    update,
)

from mars_core.types import PromptConfig, Status, Trace
from storage.connection import Connected, T
from storage.database import clock
from storage.errors import ResultExists, explained
from storage.index import reindex
from storage.runs.comparisons import add_comparison, add_run, check_prompt
from storage.runs.records import new_run
from storage.schema import (
    ComparisonRow,
    Judgement,
    RunRow,
    Source,
    Study,
    StudyResult,
    StudyTask,
)
from storage.scope import batches, row_of
from storage.studies.studies import PATIENCE_S, lock_study

Relatives = Mapping[int, Mapping[str, Any]]  # lane → values relative to its baseline
_TASK = (StudyTask.study_id == StudyResult.study_id) & (StudyTask.task == StudyResult.task)


@dataclass(frozen=True, slots=True)
class StoredResult:
    """The result of one lane of a task. ``run_ids``, ``comparison_ids``: one per turn; the objects
    may have been deleted.

    ``data``, ``relative``: as saved, with non-finite numbers as strings; ``relative`` is None until
    its baseline has run.
    """

    task: int
    lane: int
    run_ids: tuple[str, ...]
    worker: str
    created_at: datetime
    data: dict[str, Any]
    relative: dict[str, Any] | None
    comparison_ids: tuple[str, ...] = ()


class Results(Connected):
    """Every method is one short transaction, and raises StorageError for an unknown study."""

    def save_result(
        self,
        study_id: str,
        task: int,
        lane: int,
        traces: Sequence[Trace],
        data: Mapping[str, Any],
        *,
        order: int,
        worker: str,
    ) -> tuple[str, ...]:
        """Save the runs of a lane, one per turn, and their result in one transaction; returns the
        ids of the runs.

        The comparison of each turn is created with its first run. Raises ResultExists if the lane
        has a result already.
        """
        with explained("The result was not saved", self.location):
            new = [new_run(trace, lane, order) for trace in traces]
        prompts = [trace.config.prompt for trace in traces]
        of_task = {"study_id": study_id, "task": task}
        with self._write("The result was not saved", PATIENCE_S) as connection:
            known = _locked_task(connection, study_id, task)
            if connection.execute(select(StudyResult.lane).filter_by(**of_task, lane=lane)).first():
                raise ResultExists(
                    f"Lane {lane} of task {task} of the study has a result; nothing was saved."
                )
            comparison_ids = _comparisons(connection, study_id, known, prompts)
            pairs = zip(comparison_ids, new, strict=False)
            run_ids = tuple(add_run(connection, comparison_id, run) for comparison_id, run in pairs)
            if comparison_ids != known:
                change = update(StudyTask).filter_by(**of_task)
                connection.execute(change.values(comparison_ids=comparison_ids))
            row = of_task | {"lane": lane, "created_at": clock(connection), "worker": worker}
            connection.execute(
                insert(StudyResult),
                row | {"execution_order": order, "run_ids": run_ids, "data": data},
            )
            return run_ids

    def task_results(self, study_id: str, task: int) -> dict[int, StoredResult]:
        """Lane → result of a task, which may be unfinished."""
        statement = _of_study(study_id).where(StudyResult.task == task)
        with self.read() as connection:
            row_of(connection, Study, study_id)
            stored = list(map(_stored, connection.execute(statement).mappings()))
        return {result.lane: result for result in stored}

    def finish_task(
        self, study_id: str, task: int, relatives: Relatives, *, done: bool = True
    ) -> None:
        """Save the values of these lanes relative to their baselines, and close the task if it is
        ``done``."""
        of_task = {"study_id": study_id, "task": task}
        with self._write("The task was not finished", PATIENCE_S) as connection:
            _locked_task(connection, study_id, task)
            for lane, relative in relatives.items():
                of_lane = update(StudyResult).filter_by(**of_task, lane=lane)
                connection.execute(of_lane.values(relative=relative))
            if done:
                change = update(StudyTask).filter_by(**of_task)
                connection.execute(change.values(done_at=clock(connection)))

    def results(self, study_id: str) -> tuple[StoredResult, ...]:
        """Return all results, also those of tasks that are not done, by task, then lane."""
        return self._by_task(study_id, _of_study(study_id), StudyResult, _stored)

    def _by_task(
        self,
        study_id: str,
        rows: Select[*tuple[Any, ...]],
        table: type[StudyResult | Judgement],
        make: Callable[[RowMapping], T],
    ) -> tuple[T, ...]:
        """Return ``make`` of the rows of a study, without the tasks of damaged ones."""
        with self.read() as connection:
            row_of(connection, Study, study_id)
        what = f"{table.__tablename__} of study {study_id}, task"
        return tuple(self.rows(rows, table.task, what, make))

    def reopen_failed(self, study_id: str) -> int:
        """Remove results whose ``data["status"]`` is failed, with their runs, and reopen their
        tasks; returns the number of tasks."""
        status = type_coerce(StudyResult.data, JSON)["status"].as_string()
        with self._write("The failed tasks were not reopened") as connection:
            lock_study(connection, study_id)
            failed = (
                select(StudyResult.task, StudyResult.lane, StudyResult.run_ids)
                .join(StudyTask, _TASK)
                .where(StudyResult.study_id == study_id, status == Status.FAILED.value)
                .with_for_update(of=StudyTask)
            )
            rows = connection.execute(failed).all()
            for some in batches(rows):
                of_result = RunRow.id.in_([run_id for row in some for run_id in row.run_ids])
                changed = connection.scalars(select(RunRow.comparison_id).where(of_result)).all()
                connection.execute(delete(RunRow).where(of_result))
                reindex(connection, changed)
                tasks = {row.task for row in some}
                in_tasks = (StudyResult.study_id == study_id, StudyResult.task.in_(tasks))
                lanes = tuple_(StudyResult.task, StudyResult.lane).in_(row[:2] for row in some)
                connection.execute(delete(StudyResult).where(*in_tasks, lanes))
                connection.execute(update(StudyResult).where(*in_tasks).values(relative=None))
                reopened = update(StudyTask).where(
                    StudyTask.study_id == study_id, StudyTask.task.in_(tasks)
                )
                connection.execute(reopened.values(done_at=None))
            return len({row.task for row in rows})


def _of_study(study_id: str) -> Select[*tuple[Any, ...]]:
    """Select the results of a study by task, then lane."""
    names = [each.name for each in fields(StoredResult)]
    columns = [column for column in StudyResult.__table__.columns if column.name in names]
    statement = select(*columns, StudyTask.comparison_ids).join(StudyTask, _TASK)
    results = statement.where(StudyResult.study_id == study_id)
    return results.order_by(StudyResult.task, StudyResult.lane)


def _stored(row: RowMapping) -> StoredResult:
    values: dict[str, Any] = {**row}
    for name in ("run_ids", "comparison_ids"):
        values[name] = tuple(values[name])
    return StoredResult(**values)


def _locked_task(connection: Connection, study_id: str, task: int) -> list[str]:
    """Return the comparisons of a task and lock it until the transaction ends."""
    row_of(connection, Study, study_id)
    statement = select(StudyTask.comparison_ids).filter_by(study_id=study_id, task=task)
    known: list[str] = connection.execute(statement.with_for_update()).scalar_one()
    return known


def _comparisons(
    connection: Connection,
    study_id: str,
    known: Sequence[str],
    prompts: Sequence[PromptConfig],
) -> list[str]:
    """Return the comparison of each turn: the existing one, even if deleted, else a new one of the
    study's owner."""
    comparisons = list(known)
    for turn, prompt in enumerate(prompts):
        there = select(ComparisonRow.__table__).where(
            ComparisonRow.id.in_(comparisons[turn : turn + 1])
        )
        row = connection.execute(there).mappings().one_or_none()
        if row is None:
            owner = connection.execute(select(Study.owner).where(Study.id == study_id)).scalar_one()
            comparisons[turn : turn + 1] = [add_comparison(connection, prompt, Source.STUDY, owner)]
        else:
            check_prompt(row, prompt)
    return comparisons
