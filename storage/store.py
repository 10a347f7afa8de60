"""RunStore: saves runs and studies atomically and reads them back; access by owner: scoped stores,
counts, transfer, permanent deletion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from sqlalchemy import ColumnElement, Connection, delete, func, not_, select, update

from storage.runs.comparisons import Comparisons, remove
from storage.runs.counterfactuals import Counterfactuals
from storage.runs.runs import Runs
from storage.runs.search import Lists
from storage.runs.votes import Votes
from storage.schema import ComparisonRow, Facet, Link, Study, StudyTask, Vote
from storage.scope import EVERYBODY, Everything, Owned, Table, owned_by
from storage.shares import Shares
from storage.studies.judgements import Judgements
from storage.studies.studies import Studies

TASKS_A_WRITE = 10
_NOT_DELETED = "Not everything was deleted"
_NOT_EXPIRED = "Not all old runs were removed"


@dataclass(frozen=True, slots=True)
class StoreCounts:
    """Number of stored objects. ``deleted``: deleted comparisons that can be restored, not in the
    other numbers."""

    comparisons: int
    runs: int
    votes: int
    studies: int
    shares: int
    deleted: int


class RunStore(Comparisons, Runs, Counterfactuals, Lists, Votes, Studies, Judgements, Shares):
    """The runs and studies in one database: ``sqlite:////folder/file.db`` or ``postgresql://…``;
    None: a file in the data folder.

    Thread-safe; writes are serialised. Every method raises StorageError when the database fails,
    and then nothing has been changed.

    A store has access to everything, or (``of``) to one owner's objects, or (``through``) to what
    one link shows. Objects outside its scope do not exist for it: their ids are unknown for reading
    and writing.
    """

    @property
    def owner(self) -> str | None:
        """The owner of its objects and of new ones; None: all objects, and new ones belong to
        everybody (or it is a link's)."""
        return self.scope.owner if isinstance(self.scope, Owned) else None

    @property
    def read_only(self) -> bool:
        """Whether every write raises an error, as through a link."""
        return not self.scope.writable

    def of(self, owner: str | None) -> Self:
        """Return the same database restricted to ``owner`` (1 to 64 characters); None: this store,
        which must have everything.

        Raises ValueError for another owner than the one it already has: a scope is never widened.
        """
        if owner == self.owner and self.scope.writable:
            return self
        if not isinstance(self.scope, Everything) or owner is None:
            raise ValueError(
                "A store of one owner, or of a link, cannot be changed to another scope."
            )
        return self.scoped(owned_by(owner))

    def counts(self) -> StoreCounts:
        """Return the number of stored objects."""
        live, visible = ComparisonRow.deleted_at.is_(None), self.scope.of(ComparisonRow)
        number = func.count()
        votes = select(number).select_from(Vote).join(ComparisonRow)
        votes = votes.where(live, *visible, *self.scope.votes).correlate(None)
        studies = select(number).select_from(Study).where(*self.scope.of(Study))
        query = select(
            number.filter(live).label("comparisons"),
            func.coalesce(func.sum(ComparisonRow.runs).filter(live), 0).label("runs"),
            number.filter(not_(live)).label("deleted"),
            votes.scalar_subquery().label("votes"),
            studies.scalar_subquery().label("studies"),
        ).where(*visible)
        shares = len(self.shares())
        with self.read() as connection:
            return StoreCounts(**connection.execute(query).mappings().one(), shares=shares)

    def give(self, owner_from: str, owner_to: str) -> int:
        """Transfer everything of one owner to another, in one transaction; returns the number of
        comparisons, including deleted ones.

        The caller must have authenticated as both. Raises ValueError if this store belongs to
        another owner, and for objects of everybody.
        """
        owned_by(owner_from), owned_by(owner_to)
        if not isinstance(self.scope, Everything) and self.owner != owner_from:
            raise ValueError("A store of one owner can transfer only its own objects.")
        with self._write("Nothing was moved") as connection:
            moved = [
                connection.execute(
                    update(table).where(table.owner == owner_from).values(owner=owner_to)
                ).rowcount
                for table in (ComparisonRow, Facet, Study, Link)
            ]
            return moved[0]

    def delete_everything(self) -> int:
        """Permanently remove everything of this owner, including deleted comparisons; returns their
        number. Raises ValueError without an owner.

        Links are removed first, in a separate transaction; then a few comparisons at a time, so
        that others can write.
        """
        if self.owner is None:
            raise ValueError("Only the objects of one owner can be deleted together.")
        with self._write(_NOT_DELETED) as connection:
            connection.execute(delete(Link).where(*self.scope.of(Link)))
        removed = self._remove(_NOT_DELETED)
        self._remove_studies(_NOT_DELETED)
        return removed

    def expire(self, before: datetime) -> int:
        """Permanently remove objects created before, a few at a time; returns the number of
        comparisons, without those of studies.

        A study is removed with its comparisons. Objects of everybody stay.
        """

        def old(table: Table) -> Sequence[ColumnElement[bool]]:
            return table.created_at < before, table.owner != EVERYBODY

        self._remove_studies(_NOT_EXPIRED, *old(Study))
        return self._remove(_NOT_EXPIRED, *old(ComparisonRow))

    def _remove_studies(self, failure: str, *which: ColumnElement[bool]) -> None:
        """Permanently removes studies: a few tasks at a time, with their comparisons, then the
        study."""

        def few(connection: Connection) -> int:
            study_id = connection.scalars(
                select(Study.id).where(*which, *self.scope.of(Study)).limit(1)
            ).first()
            if study_id is None:
                return 0
            tasks = select(StudyTask.task, StudyTask.comparison_ids).where(
                StudyTask.study_id == study_id
            )
            rows = connection.execute(tasks.limit(TASKS_A_WRITE)).all()
            remove(connection, [id_ for row in rows for id_ in row.comparison_ids])
            statement = delete(StudyTask).where(StudyTask.study_id == study_id)
            connection.execute(statement.where(StudyTask.task.in_([row.task for row in rows])))
            if len(rows) < TASKS_A_WRITE:
                connection.execute(delete(Study).where(Study.id == study_id))
            return 1

        self._until_none(failure, few)
