"""Who works on which task of a study, for a while: claims, their prolongation and their end. Opens no transaction.

A claim is a token in the task's row. Whoever finds another token there, or none, has lost it and may write nothing: so a worker
that was thought dead harms nobody. Times are those of the database's clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Connection, RowMapping, Update, or_, select, update

from storage.database import clock
from storage.errors import ClaimLost, StorageError
from storage.records import check_id, new_id, unknown
from storage.scope import scope_of
from storage.study_schema import Study, StudyTask

LONGEST_LEASE_S = 86_400.0
UNCLAIMED = {"token": None, "worker": None, "claimed_until": None}


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to save results of one task. It ends when another worker has claimed the task, not when the lease does."""

    study_id: str
    task: int  # 0-based
    token: str


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """A task that is claimed; the lease may have run out."""

    task: int
    worker: str
    claimed_until: datetime


def claim_task(connection: Connection, study_id: str, worker: str, lease_s: float) -> Claim | None:
    """The lowest task that is neither done nor under a claim whose lease lasts. Raises StorageError for an unknown study."""
    check_study(connection, study_id)
    now = clock(connection)
    free = or_(StudyTask.token.is_(None), StudyTask.claimed_until < now)
    lowest = select(StudyTask.task).where(StudyTask.study_id == study_id, StudyTask.done_at.is_(None), free)
    lowest = lowest.order_by(StudyTask.task).limit(1).with_for_update(skip_locked=True)
    task = connection.execute(lowest).scalar_one_or_none()
    if task is None:
        return None
    claim = Claim(study_id, task, new_id())
    values = {"token": claim.token, "worker": worker, "claimed_until": now + _lease(lease_s)}
    connection.execute(update(StudyTask).where(StudyTask.study_id == study_id, StudyTask.task == task).values(values))
    return claim


def beat(connection: Connection, claim: Claim, lease_s: float) -> bool:
    """Prolong a claim; False where it is lost."""
    until = clock(connection) + _lease(lease_s)
    return connection.execute(_claimed(connection, claim).values(claimed_until=until)).rowcount == 1


def release_task(connection: Connection, claim: Claim) -> None:
    """Give a task back; of a lost claim nothing is left to give."""
    connection.execute(_claimed(connection, claim).values(UNCLAIMED))


def finish_task(connection: Connection, claim: Claim) -> None:
    """Mark the task of a claim as done; ``held`` has found it to be there."""
    connection.execute(_claimed(connection, claim).values(UNCLAIMED | {"done_at": clock(connection)}))


def held(connection: Connection, claim: Claim) -> RowMapping:
    """The row of the claimed task, kept from others until the transaction ends. Raises ClaimLost."""
    statement = select(StudyTask.worker, StudyTask.comparison_ids).where(*_held(connection, claim))
    row = connection.execute(statement.with_for_update()).mappings().one_or_none()
    if row is None:
        raise ClaimLost(f"Task {claim.task} of the study belongs to this worker no longer; nothing was saved.")
    return row


def claims(connection: Connection, study_id: str) -> tuple[ClaimRow, ...]:
    """By task."""
    check_study(connection, study_id)
    statement = select(StudyTask.task, StudyTask.worker, StudyTask.claimed_until)
    rows = connection.execute(statement.where(*_under_claim(study_id)).order_by(StudyTask.task))
    return tuple(ClaimRow(task, worker or "", until) for task, worker, until in rows if until is not None)


def release_worker(connection: Connection, study_id: str, worker: str) -> int:
    """End every claim of a worker that is known to be gone; how many they were."""
    lock_study(connection, study_id)
    mine = update(StudyTask).where(*_under_claim(study_id), StudyTask.worker == worker)
    return connection.execute(mine.values(UNCLAIMED)).rowcount


def check_study(connection: Connection, study_id: str) -> None:
    """Raises StorageError where there is none of this id."""
    check_id(study_id, "study")
    there = select(Study.id).where(Study.id == study_id, *scope_of(connection).studies())
    if connection.execute(there).one_or_none() is None:
        raise unknown(study_id, "study")


def lock_study(connection: Connection, study_id: str) -> None:
    """What changes many tasks of a study goes one after the other: else two could wait for each other."""
    check_study(connection, study_id)
    connection.execute(select(Study.id).where(Study.id == study_id).with_for_update())


def _claimed(connection: Connection, claim: Claim) -> Update:
    return update(StudyTask).where(*_held(connection, claim))


def _held(connection: Connection, claim: Claim) -> tuple[ColumnElement[bool], ...]:
    same = (StudyTask.study_id == claim.study_id, StudyTask.task == claim.task, StudyTask.token == claim.token)
    if mine := scope_of(connection).studies():
        return *same, StudyTask.study_id.in_(select(Study.id).where(*mine))
    return same


def _under_claim(study_id: str) -> tuple[ColumnElement[bool], ...]:
    return StudyTask.study_id == study_id, StudyTask.done_at.is_(None), StudyTask.token.is_not(None)


def _lease(lease_s: float) -> timedelta:
    if not 0 < lease_s <= LONGEST_LEASE_S:
        raise StorageError(f"lease_s is {lease_s:g}; it must be more than 0 and at most {LONGEST_LEASE_S:g} seconds.")
    return timedelta(seconds=lease_s)
