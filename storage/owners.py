"""What belongs to an owner: counted, given to another, removed for good a little at a time. Opens no transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, Select, delete, func, not_, select, update

from storage.schema import Comparison, Run, Sweep, Vote
from storage.scope import EVERYBODY, scope_of
from storage.share_schema import Link
from storage.shares import all_shares
from storage.studies import is_sweep
from storage.study_schema import Study, StudyTask

COMPARISONS_A_WRITE = 20  # a run of 512 tokens has some 2,000 rows
TASKS_A_WRITE = 10
_OWNED = (Comparison, Sweep, Study, Link)


@dataclass(frozen=True, slots=True)
class Counts:
    """How much there is. ``deleted``: comparisons that were put away and can be brought back, in no other number."""

    comparisons: int
    runs: int
    votes: int
    sweeps: int
    studies: int
    shares: int
    deleted: int


def counts(connection: Connection) -> Counts:
    scope = scope_of(connection)
    live = (Comparison.deleted_at.is_(None), *scope.comparisons())
    runs = select(func.count()).select_from(Comparison).join(Run, Run.comparison_id == Comparison.id).where(*live)
    votes = select(func.count()).select_from(Vote).join(Comparison, Comparison.id == Vote.comparison_id)
    studies = select(func.count()).select_from(Study).where(*scope.studies())
    put_away = (Comparison.deleted_at.is_not(None), *scope.comparisons())

    def number(statement: Select[int]) -> int:
        return connection.scalars(statement).one()

    return Counts(
        comparisons=number(select(func.count()).select_from(Comparison).where(*live)),
        runs=number(runs),
        votes=number(votes.where(*live, *scope.votes())),
        sweeps=number(select(func.count()).select_from(Sweep).where(*scope.sweeps()))
        + number(studies.where(is_sweep())),
        studies=number(studies.where(not_(is_sweep()))),
        shares=len(all_shares(connection)),
        deleted=number(select(func.count()).select_from(Comparison).where(*put_away)),
    )


def give(connection: Connection, owner_from: str, owner_to: str) -> int:
    """Everything of the one is the other's from now on; how many comparisons that are, deleted ones included."""
    moved = [
        connection.execute(update(table).where(table.owner == owner_from).values(owner=owner_to)).rowcount
        for table in _OWNED
    ]
    return moved[0]


def remove_links(connection: Connection) -> None:
    connection.execute(delete(Link).where(*scope_of(connection).links()))


def remove_comparisons(connection: Connection, *which: ColumnElement[bool]) -> int:
    """A few of them for good, with all below; how many, 0 when none is left."""
    few = select(Comparison.id).where(*which, *scope_of(connection).comparisons()).limit(COMPARISONS_A_WRITE)
    return _remove(connection, connection.execute(few).scalars().all())


def remove_sweeps(connection: Connection, *which: ColumnElement[bool]) -> int:
    """A few of them for good, not their comparisons; how many, 0 when none is left."""
    few = select(Sweep.id).where(*which, *scope_of(connection).sweeps()).limit(COMPARISONS_A_WRITE)
    ids = connection.execute(few).scalars().all()
    return connection.execute(delete(Sweep).where(Sweep.id.in_(ids))).rowcount


def remove_studies(connection: Connection, *which: ColumnElement[bool]) -> int:
    """A few tasks of one of them for good, with their comparisons, and at last the study; 0 when none is left."""
    study_id = connection.execute(select(Study.id).where(*which, *scope_of(connection).studies()).limit(1)).scalar()
    if study_id is None:
        return 0
    tasks = select(StudyTask.task, StudyTask.comparison_ids).where(StudyTask.study_id == study_id)
    few = connection.execute(tasks.limit(TASKS_A_WRITE)).all()
    _remove(connection, [id_ for row in few for id_ in row.comparison_ids])
    mine = delete(StudyTask).where(StudyTask.study_id == study_id, StudyTask.task.in_([row.task for row in few]))
    connection.execute(mine)
    if len(few) < TASKS_A_WRITE:
        connection.execute(delete(Study).where(Study.id == study_id))
    return 1


def _remove(connection: Connection, comparison_ids: Sequence[str]) -> int:
    return connection.execute(delete(Comparison).where(Comparison.id.in_(comparison_ids))).rowcount


def older(
    before: datetime, table: type[Comparison | Sweep | Study], everybodys: bool
) -> tuple[ColumnElement[bool], ...]:
    """Made before, and somebody's unless ``everybodys`` are meant too."""
    return (table.created_at < before, *(() if everybodys else (table.owner != EVERYBODY,)))
