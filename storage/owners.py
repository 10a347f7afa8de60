"""What belongs to an owner: seen alone, counted, given to another, removed for good. Knows no cookies and no accounts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from sqlalchemy import ColumnElement, Connection, delete, func, not_, select, update

from storage.runs.comparisons import COMPARISONS_A_WRITE, Comparisons, remove
from storage.schema import Comparison, Facet, Link, Study, StudyTask, Sweep, Vote
from storage.scope import EVERYBODY, Everything, Owned, Table, owned_by
from storage.shares import Shares
from storage.studies.studies import is_sweep

TASKS_A_WRITE = 10
_NOT_DELETED = "Not everything was deleted"
_NOT_EXPIRED = "Not all old runs were removed"


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


class Owners(Comparisons, Shares):
    """A store has everything, or (``of``) what belongs to one owner, or (``through``) what one link shows.

    What is not in it is not there: its id is as unknown as one that was never given, to read and to write.
    """

    @property
    def owner(self) -> str | None:
        """Whose things are in it and who owns new ones; None: everything is, and new ones are everybody's (or it is a link's)."""
        return self.scope.owner if isinstance(self.scope, Owned) else None

    @property
    def read_only(self) -> bool:
        """Whether every write is refused, as it is through a link."""
        return not self.scope.writable

    def of(self, owner: str | None) -> Self:
        """The same database with what belongs to ``owner`` (1 to 64 characters); None: this store, which must have everything.

        Raises ValueError for another owner than the one it already has: a store is never widened.
        """
        if owner == self.owner and self.scope.writable:
            return self
        if not isinstance(self.scope, Everything) or owner is None:
            raise ValueError("A store of one owner, or of a link, cannot be made one of others.")
        return self.scoped(owned_by(owner))

    def counts(self) -> Counts:
        """How much there is."""
        comparisons, studies = self.scope.of(Comparison), self.scope.of(Study)
        live = (Comparison.deleted_at.is_(None), *comparisons)
        vote = (Vote, Vote.comparison_id == Comparison.id)
        runs = func.coalesce(func.sum(Comparison.runs), 0)
        shares = len(self.shares())
        with self.read() as connection:

            def number(table: Table, *which: ColumnElement[bool], joined: Any = None) -> int:
                statement = select(func.count()).select_from(table).where(*which)
                return connection.execute(statement.join(*joined) if joined else statement).scalar_one()

            found = connection.execute(select(func.count(), runs).select_from(Comparison).where(*live)).one()
            return Counts(
                comparisons=found[0],
                runs=found[1],
                votes=number(Comparison, *live, *self.scope.votes, joined=vote),
                sweeps=number(Sweep, *self.scope.of(Sweep)) + number(Study, is_sweep(), *studies),
                studies=number(Study, not_(is_sweep()), *studies),
                shares=shares,
                deleted=number(Comparison, Comparison.deleted_at.is_not(None), *comparisons),
            )

    def give(self, owner_from: str, owner_to: str) -> int:
        """Make everything of one owner another's, in one transaction; how many comparisons that were, deleted ones included.

        Whoever asks must have shown to be both. Raises ValueError where this store is that of somebody else, and for
        what is everybody's.
        """
        owned_by(owner_from), owned_by(owner_to)
        if not isinstance(self.scope, Everything) and self.owner != owner_from:
            raise ValueError("A store of one owner gives away its own things only.")
        with self._write("Nothing was taken along") as connection:
            moved = [
                connection.execute(update(table).where(table.owner == owner_from).values(owner=owner_to)).rowcount
                for table in (Comparison, Facet, Sweep, Study, Link)
            ]
            return moved[0]

    def delete_everything(self) -> int:
        """Remove all of this owner for good, what was put away too; how many comparisons that were. Raises ValueError for no owner.

        Links end first, in a transaction of their own; the rest goes a few comparisons at a time, so that others can write.
        """
        if self.owner is None:
            raise ValueError("Only the things of one owner can be deleted all at once.")
        with self._write(_NOT_DELETED) as connection:
            connection.execute(delete(Link).where(*self.scope.of(Link)))
        removed = self._remove_comparisons(_NOT_DELETED)
        self._remove_sweeps(_NOT_DELETED)
        self._remove_studies(_NOT_DELETED)
        return removed

    def expire(self, before: datetime, *, everybodys: bool = False) -> int:
        """Remove for good what was made before, a few at a time; how many comparisons that were, those of studies not counted.

        A study goes with all that was made for it. What belongs to everybody stays, unless ``everybodys``.
        """

        def old(table: Table) -> Sequence[ColumnElement[bool]]:
            return (table.created_at < before, *(() if everybodys else (table.owner != EVERYBODY,)))

        self._remove_studies(_NOT_EXPIRED, *old(Study))
        removed = self._remove_comparisons(_NOT_EXPIRED, *old(Comparison))
        self._remove_sweeps(_NOT_EXPIRED, *old(Sweep))
        return removed

    def _remove_sweeps(self, failure: str, *which: ColumnElement[bool]) -> None:
        """For good, a few at a time, not their comparisons."""
        ids = select(Sweep.id).where(*which, *self.scope.of(Sweep)).limit(COMPARISONS_A_WRITE)

        def few(connection: Connection) -> int:
            return connection.execute(delete(Sweep).where(Sweep.id.in_(connection.scalars(ids).all()))).rowcount

        self._until_none(failure, few)

    def _remove_studies(self, failure: str, *which: ColumnElement[bool]) -> None:
        """For good: a few tasks of one of them at a time, with their comparisons, and at last the study."""

        def few(connection: Connection) -> int:
            study_id = connection.scalars(select(Study.id).where(*which, *self.scope.of(Study)).limit(1)).first()
            if study_id is None:
                return 0
            tasks = select(StudyTask.task, StudyTask.comparison_ids).where(StudyTask.study_id == study_id)
            found = connection.execute(tasks.limit(TASKS_A_WRITE)).all()
            remove(connection, [id_ for row in found for id_ in row.comparison_ids])
            mine = delete(StudyTask).where(StudyTask.study_id == study_id)
            connection.execute(mine.where(StudyTask.task.in_([row.task for row in found])))
            if len(found) < TASKS_A_WRITE:
                connection.execute(delete(Study).where(Study.id == study_id))
            return 1

        self._until_none(failure, few)
