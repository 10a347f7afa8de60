"""What a judge, a language model, says of the results of a study."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, insert, select

from storage.database import clock
from storage.errors import StorageError
from storage.schema import Judgement, Preferred, Study, StudyResult
from storage.scope import row_of
from storage.studies.results import Results


@dataclass(frozen=True, slots=True)
class StoredJudgement:
    """A judge's answer on the texts of ``lane`` and its baseline. ``swapped``: the baseline's came
    first."""

    task: int
    lane: int
    swapped: bool
    created_at: datetime
    judge: str
    choice: Preferred
    text: str


class Judgements(Results):
    """One for every order in which a judge saw the texts of a lane."""

    def add_judgement(
        self,
        study_id: str,
        task: int,
        lane: int,
        *,
        swapped: bool,
        judge: str,
        choice: Preferred,
        text: str = "",
    ) -> None:
        """Save a judge's preference; ``swapped``: the baseline's text came first. Replaces an
        earlier one in the same order.

        Raises StorageError if the lane has no result.
        """
        with self._write("The judgement was not saved") as connection:
            row_of(connection, Study, study_id)
            key = {"study_id": study_id, "task": task, "lane": lane}
            judged = select(StudyResult.lane).filter_by(**key).with_for_update()
            if connection.execute(judged).first() is None:
                raise StorageError(
                    f"The judgement was not saved: lane {lane} of task {task} of the study has no "
                    "result."
                )
            key |= {"swapped": swapped}
            connection.execute(delete(Judgement).filter_by(**key))
            row = key | {
                "created_at": clock(connection),
                "judge": judge,
                "choice": choice,
                "text": text,
            }
            connection.execute(insert(Judgement), row)

    def judgements(self, study_id: str) -> tuple[StoredJudgement, ...]:
        """Return all judgements, by task, lane and order."""
        columns = [column for column in Judgement.__table__.columns if column.name != "study_id"]
        statement = select(*columns).where(Judgement.study_id == study_id)
        statement = statement.order_by(Judgement.task, Judgement.lane, Judgement.swapped)
        return self._by_task(study_id, statement, Judgement, lambda row: StoredJudgement(**row))
