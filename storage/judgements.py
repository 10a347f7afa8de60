"""Judgements in the database: which of two texts of a task a language model preferred. Opens no transaction."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, delete, insert, select

from storage.claims import check_study
from storage.database import clock
from storage.errors import StorageError
from storage.study_schema import Judgement, StudyResult
from storage.words import Preferred


@dataclass(frozen=True, slots=True)
class StoredJudgement:
    """One answer of a judge who was shown the text of ``lane`` and of its baseline. ``swapped``: the baseline's stood first."""

    task: int
    lane: int
    swapped: bool
    created_at: datetime
    judge: str
    choice: Preferred
    text: str


def add_judgement(
    connection: Connection, study_id: str, task: int, lane: int, swapped: bool, judge: str, choice: Preferred, text: str
) -> None:
    """A later one takes the place of one in the same order. Raises StorageError where the lane has no result."""
    check_study(connection, study_id)
    place = {"study_id": study_id, "task": task, "lane": lane}
    judged = select(StudyResult.lane).filter_by(**place).with_for_update()
    if connection.execute(judged).first() is None:
        raise StorageError(f"The judgement was not saved: lane {lane} of task {task} of the study has no result.")
    place |= {"swapped": swapped}
    connection.execute(delete(Judgement).filter_by(**place))
    row = place | {"created_at": clock(connection), "judge": judge, "choice": choice, "text": text}
    connection.execute(insert(Judgement), row)


def judgements(connection: Connection, study_id: str) -> tuple[StoredJudgement, ...]:
    """By task, lane and order."""
    check_study(connection, study_id)
    columns = [column for column in Judgement.__table__.columns if column.name != "study_id"]
    statement = select(*columns).where(Judgement.study_id == study_id)
    rows = connection.execute(statement.order_by(Judgement.task, Judgement.lane, Judgement.swapped))
    return tuple(StoredJudgement(*row) for row in rows)
