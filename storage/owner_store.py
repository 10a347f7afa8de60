"""OwnerStore: whose things are whose, what is shared by links, and their end. Knows no cookies, accounts or addresses."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Self

from sqlalchemy import ColumnElement

from storage import owners, shares
from storage.owners import Counts
from storage.schema import Comparison, Sweep
from storage.scope import Everything, Owned, owned_by
from storage.shares import Share
from storage.study_schema import Study
from storage.study_store import StudyStore
from storage.words import Shared

_NOT_DELETED = "Not everything was deleted"
_NOT_EXPIRED = "Not all old runs were removed"


class OwnerStore(StudyStore):
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

    def through(self, token: str) -> Self:
        """What a link shows, to read only: one comparison, or a sweep or a study with its comparisons.

        Name, tags and comment of a comparison are shared with it; votes are not. It ends at once when the link does. Raises
        StorageError for a token that shows nothing, or nothing any more.
        """
        with self.scoped(Everything()).read() as connection:
            return self.scoped(shares.opened(connection, token))

    def share(self, kind: Shared, object_id: str) -> str:
        """Let whoever has a link read this; returns the token of the link, once. An earlier link to it ends."""
        with self._write("Nothing was shared") as connection:
            return shares.add_share(connection, kind, object_id)

    def unshare(self, kind: Shared, object_id: str) -> None:
        """End the link to this; nothing where there is none."""
        with self._write("Sharing was not ended") as connection:
            shares.remove_share(connection, kind, object_id)

    def shared(self, kind: Shared, object_id: str) -> bool:
        """Whether there is a link to this."""
        with self.read() as connection:
            return shares.is_shared(connection, kind, object_id)

    def shares(self) -> tuple[Share, ...]:
        """What is shared, latest first. A comparison that is put away is not, until it is restored."""
        with self.read() as connection:
            return shares.all_shares(connection)

    def counts(self) -> Counts:
        """How much there is."""
        with self.read() as connection:
            return owners.counts(connection)

    def give(self, owner_from: str, owner_to: str) -> int:
        """Make everything of one owner another's, in one transaction; how many comparisons that were, deleted ones included.

        Whoever asks must have shown to be both. Raises ValueError where this store is that of somebody else, and for
        what is everybody's.
        """
        owned_by(owner_from), owned_by(owner_to)
        if not isinstance(self.scope, Everything) and self.owner != owner_from:
            raise ValueError("A store of one owner gives away its own things only.")
        with self._write("Nothing was taken along") as connection:
            return owners.give(connection, owner_from, owner_to)

    def delete_everything(self) -> int:
        """Remove all of this owner for good, what was put away too; how many comparisons that were. Raises ValueError for no owner.

        Links end first, in a transaction of their own; the rest goes a few comparisons at a time, so that others can write.
        """
        if self.owner is None:
            raise ValueError("Only the things of one owner can be deleted all at once.")
        with self._write(_NOT_DELETED) as connection:
            owners.remove_links(connection)
        removed = self._until_none(_NOT_DELETED, owners.remove_comparisons)
        self._until_none(_NOT_DELETED, owners.remove_sweeps)
        self._until_none(_NOT_DELETED, owners.remove_studies)
        return removed

    def expire(self, before: datetime, *, everybodys: bool = False) -> int:
        """Remove for good what was made before, a few at a time; how many comparisons that were, those of studies not counted.

        A study goes with all that was made for it. What belongs to everybody stays, unless ``everybodys``.
        """
        old = {table: owners.older(before, table, everybodys) for table in (Study, Comparison, Sweep)}
        self._until_none(_NOT_EXPIRED, owners.remove_studies, *old[Study])
        removed = self._until_none(_NOT_EXPIRED, owners.remove_comparisons, *old[Comparison])
        self._until_none(_NOT_EXPIRED, owners.remove_sweeps, *old[Sweep])
        return removed

    def _until_none(self, failure: str, few: Callable[..., int], *which: ColumnElement[bool]) -> int:
        """``few`` in one short transaction after the other; the sum of what it says."""
        removed = 0
        while True:
            with self._write(failure) as connection:
                now = few(connection, *which)
            if now == 0:
                return removed
            removed += now
