"""Results of a study in the database: saved with their runs, read fast, taken back for another try. Opens no transaction."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    JSON,
    Connection,
    Row,
    Select,
    Text,
    and_,
    bindparam,
    cast,
    delete,
    insert,
    or_,
    select,
    type_coerce,
    update,
)

from mars_core.types import PromptConfig, Status, Trace
from storage.claims import UNCLAIMED, Claim, check_study, finish_task, held, lock_study
from storage.columns import restored
from storage.comparisons import add_comparison, check_prompt
from storage.database import clock
from storage.errors import ClaimLost
from storage.runs import NewRun, add_run
from storage.schema import Comparison, Run
from storage.study_schema import Study, StudyResult, StudyTask
from storage.text import ESCAPE
from storage.words import Source

RUNS_A_WRITE = 500
Found = Row[*tuple[Any, ...]]
Relatives = Mapping[int, Mapping[str, Any]]  # lane → what it is beside its baseline


@dataclass(frozen=True, slots=True)
class StoredResult:
    """What one lane of a task came to. ``run_ids``, ``comparison_ids``: one a turn; either may be gone since it was deleted.

    ``data``, ``relative``: as they were saved, a non-finite number as a word; ``relative`` is None until its baseline has run.
    """

    task: int
    lane: int
    run_ids: tuple[str, ...]
    worker: str
    created_at: datetime
    data: dict[str, Any]
    relative: dict[str, Any] | None
    comparison_ids: tuple[str, ...] = ()


def save_result(
    connection: Connection, claim: Claim, lane: int, order: int, traces: Sequence[Trace], new: Sequence[NewRun],
    data: Mapping[str, Any], relatives: Relatives, source: Source,
) -> tuple[str, ...]:  # fmt: skip
    """Write the runs of ``traces``, one a turn, and what they came to; the ids of the runs. Raises ClaimLost."""
    task = held(connection, claim)
    place = {"study_id": claim.study_id, "task": claim.task, "lane": lane}
    if connection.execute(select(StudyResult.lane).filter_by(**place)).first():
        raise ClaimLost(f"Lane {lane} of task {claim.task} of the study has a result; nothing was saved.")
    prompts = [trace.config.prompt for trace in traces]
    comparison_ids = _comparisons(connection, claim.study_id, task["comparison_ids"], prompts, source)
    for run, comparison_id in zip(new, comparison_ids, strict=False):
        add_run(connection, comparison_id, run)
    if comparison_ids != task["comparison_ids"]:
        same = (StudyTask.study_id == claim.study_id, StudyTask.task == claim.task)
        connection.execute(update(StudyTask).where(*same).values(comparison_ids=comparison_ids))
    run_ids = [run.id for run in new]
    row = place | {"created_at": clock(connection), "worker": task["worker"], "execution_order": order}
    connection.execute(insert(StudyResult), row | {"run_ids": run_ids, "data": data})
    _save_relatives(connection, claim, relatives)
    return tuple(run_ids)


def finish(connection: Connection, claim: Claim, relatives: Relatives) -> None:
    """Write what each of these lanes is beside its baseline, and close the task. Raises ClaimLost."""
    held(connection, claim)
    _save_relatives(connection, claim, relatives)
    finish_task(connection, claim)


def _save_relatives(connection: Connection, claim: Claim, relatives: Relatives) -> None:
    if not relatives:
        return
    same = (StudyResult.study_id == claim.study_id, StudyResult.task == claim.task)
    change = update(StudyResult).where(*same, StudyResult.lane == bindparam("at"))
    values = [{"at": lane, "value": relative} for lane, relative in relatives.items()]
    connection.execute(change.values(relative=bindparam("value", type_=StudyResult.relative.type)), values)


def rows_of_task(connection: Connection, study_id: str, task: int) -> Sequence[Found]:
    check_study(connection, study_id)
    return connection.execute(_results(study_id).where(StudyResult.task == task)).all()


def rows_of_study(connection: Connection, study_id: str, unfinished: bool) -> Sequence[Found]:
    """Of done tasks, or of all, by task, then lane."""
    check_study(connection, study_id)
    which = () if unfinished else (StudyTask.done_at.is_not(None),)
    return connection.execute(_results(study_id).where(*which)).all()


def read_results(rows: Sequence[Found]) -> tuple[StoredResult, ...]:
    """Apart from the reading of the rows, so that no transaction lasts while they are parsed."""
    if not rows:
        return ()
    tasks, lanes, workers, times, *texts = zip(*rows, strict=True)
    run_ids, data, relatives, comparison_ids = map(_parsed, texts)
    made = map(tuple, comparison_ids)
    columns = zip(tasks, lanes, map(tuple, run_ids), workers, times, data, relatives, made, strict=True)
    return tuple(StoredResult(*values) for values in columns)


def reopen_failed(connection: Connection, study_id: str) -> int:
    """Remove what failed, with its runs, from tasks that nobody works on, and open these; how many they were."""
    lock_study(connection, study_id)
    failed = _failed(connection, study_id)
    tasks = {row.task for row in failed}
    run_ids = [run_id for row in failed for run_id in row.run_ids]
    for start in range(0, len(run_ids), RUNS_A_WRITE):
        connection.execute(delete(Run).where(Run.id.in_(run_ids[start : start + RUNS_A_WRITE])))
    if not tasks:
        return 0
    of_task = StudyResult.study_id == study_id, StudyResult.task == bindparam("of")
    each = [{"of": row.task, "at": row.lane} for row in failed]
    connection.execute(delete(StudyResult).where(*of_task, StudyResult.lane == bindparam("at")), each)
    opened = [{"of": task} for task in tasks]
    connection.execute(update(StudyResult).where(*of_task).values(relative=None), opened)
    mine = StudyTask.study_id == study_id, StudyTask.task == bindparam("of")
    connection.execute(update(StudyTask).where(*mine).values(UNCLAIMED | {"done_at": None}), opened)
    return len(tasks)


def _failed(connection: Connection, study_id: str) -> Sequence[Found]:
    """Failed results of tasks that are done, or that nobody works on; the tasks are kept from others."""
    status = type_coerce(StudyResult.data, JSON)["status"].as_string()
    task = and_(StudyTask.study_id == StudyResult.study_id, StudyTask.task == StudyResult.task)
    idle = or_(StudyTask.token.is_(None), StudyTask.claimed_until < clock(connection))
    statement = select(StudyResult.task, StudyResult.lane, StudyResult.run_ids).join(StudyTask, task)
    statement = statement.where(StudyResult.study_id == study_id, status == Status.FAILED.value, idle)
    return connection.execute(statement.with_for_update(of=StudyTask)).all()


def _comparisons(
    connection: Connection, study_id: str, known: Sequence[str], prompts: Sequence[PromptConfig], source: Source
) -> list[str]:
    """The comparison of each turn: what is there, also if it is deleted, else a new one, which is the study's owner's."""
    found = list(known)
    owner = select(Study.owner).where(Study.id == study_id)
    for turn, prompt in enumerate(prompts):
        there = select(Comparison.__table__).where(Comparison.id == found[turn]) if turn < len(found) else None
        row = None if there is None else connection.execute(there).mappings().one_or_none()
        if row is None:
            found[turn : turn + 1] = [
                add_comparison(connection, prompt, source, connection.execute(owner).scalar_one())
            ]
        else:
            check_prompt(row, prompt)
    return found


def _results(study_id: str) -> Select[*tuple[Any, ...]]:
    """JSON comes as text: ``_parsed`` is faster than the column's own reading."""
    own = (StudyResult.task, StudyResult.lane, StudyResult.worker, StudyResult.created_at)
    objects = (StudyResult.run_ids, StudyResult.data, StudyResult.relative, StudyTask.comparison_ids)
    statement = select(*own, *(cast(column, Text) for column in objects))
    task = and_(StudyTask.study_id == StudyResult.study_id, StudyTask.task == StudyResult.task)
    statement = statement.join(StudyTask, task).where(StudyResult.study_id == study_id)
    return statement.order_by(StudyResult.task, StudyResult.lane)


def _parsed(texts: Sequence[str | None]) -> list[Any]:
    """A column of SafeJson, parsed at once; most hold nothing to restore."""
    joined = f"[{','.join([text or 'null' for text in texts])}]"
    values: list[Any] = json.loads(joined)
    return [restored(value) for value in values] if ESCAPE in joined else values
