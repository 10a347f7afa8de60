"""Claims of workers on tasks of a study, with a lease.

A claim is a token in the task's row. A worker that finds another token or none has lost its claim
and cannot write, so a worker that was wrongly taken for dead does no harm. Times are those of the
database's clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Connection, RowMapping, or_, select, update

from storage.connection import Connected
from storage.database import clock
from storage.errors import ClaimLost, StorageError
from storage.schema import Study, StudyTask
from storage.scope import new_id, row_of, scope_of

PATIENCE_S = 60.0  # longer for workers, which have expensive results to lose
MAX_LEASE_S = 86_400.0
UNCLAIMED = {"token": None, "worker": None, "claimed_until": None}


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to save results of one task. It ends when another worker has claimed the task, not
    when the lease does."""

    study_id: str
    task: int  # 0-based
    token: str


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """A task that is claimed; the lease may have expired."""

    task: int
    worker: str
    claimed_until: datetime


class Claims(Connected):
    """Every method is one short transaction, and raises StorageError for an unknown study."""

    def claim_task(
        self, study_id: str, worker: str, lease_s: float, below: int | None = None
    ) -> Claim | None:
        """Claim the lowest unclaimed task, of those ``below`` a number if it is given, for
        ``lease_s`` seconds, at most 86,400.

        None if there is none at the moment: other workers may still release theirs until all tasks
        are done.
        """
        with self._write("No task was claimed", PATIENCE_S) as connection:
            row_of(connection, Study, study_id)
            now = clock(connection)
            free = or_(StudyTask.token.is_(None), StudyTask.claimed_until < now)
            lowest = select(StudyTask.task).where(
                StudyTask.study_id == study_id, StudyTask.done_at.is_(None), free
            )
            lowest = lowest if below is None else lowest.where(StudyTask.task < below)
            lowest = lowest.order_by(StudyTask.task).limit(1).with_for_update(skip_locked=True)
            task = connection.execute(lowest).scalar_one_or_none()
            if task is None:
                return None
            claim = Claim(study_id, task, new_id())
            claimed = {
                "token": claim.token,
                "worker": worker,
                "claimed_until": now + _lease(lease_s),
            }
            of_task = update(StudyTask).filter_by(study_id=study_id, task=task)
            connection.execute(of_task.values(claimed))
            return claim

    def beat(self, claim: Claim, lease_s: float) -> bool:
        """Renew a claim for ``lease_s`` seconds from now; False if it is lost."""
        with self._write("The claim was not renewed", PATIENCE_S) as connection:
            until = clock(connection) + _lease(lease_s)
            change = (
                update(StudyTask).where(*_same_claim(connection, claim)).values(claimed_until=until)
            )
            return connection.execute(change).rowcount == 1

    def release_task(self, claim: Claim) -> None:
        """Release a task, keeping its results; no effect if the claim is lost."""
        with self._write("The task was not released", PATIENCE_S) as connection:
            connection.execute(
                update(StudyTask).where(*_same_claim(connection, claim)).values(UNCLAIMED)
            )

    def claims(self, study_id: str) -> tuple[ClaimRow, ...]:
        """The tasks that are claimed, by number; including those with an expired lease."""
        statement = select(StudyTask.task, StudyTask.worker, StudyTask.claimed_until)
        statement = statement.where(*_under_claim(study_id)).order_by(StudyTask.task)
        with self.read() as connection:
            row_of(connection, Study, study_id)
            rows = connection.execute(statement).all()
        return tuple(
            ClaimRow(task, worker or "", until) for task, worker, until in rows if until is not None
        )

    def release_worker(self, study_id: str, worker: str) -> int:
        """Release all tasks of a dead worker; returns their number."""
        statement = update(StudyTask).where(*_under_claim(study_id), StudyTask.worker == worker)
        with self._write("The worker's tasks were not released") as connection:
            lock_study(connection, study_id)
            return connection.execute(statement.values(UNCLAIMED)).rowcount


def claimed_task(connection: Connection, claim: Claim) -> RowMapping:
    """The row of the claimed task, locked until the transaction ends. Raises ClaimLost."""
    statement = select(StudyTask.worker, StudyTask.comparison_ids).where(
        *_same_claim(connection, claim)
    )
    row = connection.execute(statement.with_for_update()).mappings().one_or_none()
    if row is None:
        raise ClaimLost(
            f"Task {claim.task} of the study no longer belongs to this worker; nothing was saved."
        )
    return row


def lock_study(connection: Connection, study_id: str) -> None:
    """Serialises changes of many tasks of a study, to avoid deadlocks."""
    row_of(connection, Study, study_id)
    connection.execute(select(Study.id).where(Study.id == study_id).with_for_update())


def _same_claim(connection: Connection, claim: Claim) -> tuple[ColumnElement[bool], ...]:
    same = (
        StudyTask.study_id == claim.study_id,
        StudyTask.task == claim.task,
        StudyTask.token == claim.token,
    )
    if conditions := scope_of(connection).of(Study):
        return *same, StudyTask.study_id.in_(select(Study.id).where(*conditions))
    return same


def _under_claim(study_id: str) -> tuple[ColumnElement[bool], ...]:
    return StudyTask.study_id == study_id, StudyTask.done_at.is_(None), StudyTask.token.is_not(None)


def _lease(lease_s: float) -> timedelta:
    if not 0 < lease_s <= MAX_LEASE_S:
        raise StorageError(
            f"lease_s is {lease_s:g}; it must be more than 0 and at most {MAX_LEASE_S:g} seconds."
        )
    return timedelta(seconds=lease_s)
