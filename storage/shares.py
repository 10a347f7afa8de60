"""Links that give read access to a comparison or a study.

The token of a link is returned once; the table has its SHA-256. It is long and random, so a plain
hash is sufficient.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self

from sqlalchemy import Connection, RowMapping, delete, exists, func, insert, select
from sqlalchemy.orm import InstrumentedAttribute

from storage.connection import Connected
from storage.errors import StorageError
from storage.runs.comparisons import comparison_row
from storage.schema import ComparisonRow, Link, Shared, Study
from storage.schema.columns import SafeText
from storage.schema.text import readable
from storage.scope import Linked, row_of

TOKEN_BYTES = 32
TITLE_LENGTH = 120  # characters
ENDED = "This link is not valid any more: its content is no longer shared."
_TOKEN = re.compile("[A-Za-z0-9_-]{32,128}")
_OBJECT = {Shared.COMPARISON: Link.comparison_id, Shared.STUDY: Link.study_id}
_LIVE = Link.comparison_id.is_(None) | ComparisonRow.deleted_at.is_(None)


@dataclass(frozen=True, slots=True)
class Share:
    """A shared object. ``title``: its name, else the beginning of its prompt, made readable."""

    kind: Shared
    object_id: str
    created_at: datetime
    title: str


class Shares(Connected):
    """Every method with an id raises StorageError for an unknown object."""

    def through(self, token: str) -> Self:
        """Return a read-only store of what a link shows: one comparison, or a study with its
        comparisons.

        Name, tags and comment of a comparison are shared with it; votes are not. Access ends
        immediately with the link. Raises StorageError for an invalid or expired token.
        """
        if _TOKEN.fullmatch(token) is None:
            raise StorageError(ENDED)
        query = select(*_OBJECT.values()).outerjoin(
            ComparisonRow, ComparisonRow.id == Link.comparison_id
        )
        with self.read() as connection:
            row = connection.execute(query.where(Link.token_hash == _hash(token), _LIVE)).first()
            kinds = [kind for kind, of in zip(_OBJECT, row or (), strict=False) if of is not None]
            if not kinds:
                raise StorageError(ENDED)
            return self.scoped(Linked(_hash(token), kinds[0], connection.dialect.name))

    def share(self, kind: Shared, object_id: str) -> str:
        """Share an object by link; returns the token of the link, once. Replaces an earlier link to
        it."""
        token = secrets.token_urlsafe(TOKEN_BYTES)
        with self._write("Nothing was shared") as connection:
            column, owner = _link_column(connection, kind, object_id)
            connection.execute(delete(Link).where(column == object_id))
            about = {"owner": owner, "created_at": datetime.now(UTC), column.key: object_id}
            connection.execute(insert(Link), {"token_hash": _hash(token), **about})
        return token

    def unshare(self, kind: Shared, object_id: str) -> None:
        """Remove the link to an object, if any."""
        with self._write("Sharing was not ended") as connection:
            column, _owner = _link_column(connection, kind, object_id)
            connection.execute(delete(Link).where(column == object_id))

    def shared(self, kind: Shared, object_id: str) -> bool:
        """Return whether an object has a link."""
        with self.read() as connection:
            column, _owner = _link_column(connection, kind, object_id)
            there = exists().where(column == object_id, *self.scope.of(Link))
            return connection.execute(select(there)).scalar_one()

    def shares(self) -> tuple[Share, ...]:
        """Shared objects, latest first, without deleted comparisons."""
        beginning = func.substr(ComparisonRow.prompt, 1, TITLE_LENGTH)
        title = func.coalesce(func.nullif(ComparisonRow.name, ""), beginning, Study.name, "")
        statement = (
            select(
                *_OBJECT.values(),
                Link.created_at,
                title.cast(SafeText).label("title"),
            )
            .outerjoin(ComparisonRow, ComparisonRow.id == Link.comparison_id)
            .outerjoin(Study, Study.id == Link.study_id)
            .where(_LIVE, *self.scope.of(Link))
            .order_by(Link.created_at.desc(), Link.token_hash)
        )
        return tuple(self.rows(statement, Link.token_hash, "link with the hash", _share))


def _share(row: RowMapping) -> Share:
    """Raises ValueError for a row that links to nothing."""
    [(kind, object_id)] = [
        (kind, row[column.key]) for kind, column in _OBJECT.items() if row[column.key]
    ]
    return Share(kind, object_id, row["created_at"], readable(row["title"]))


def _link_column(
    connection: Connection, kind: Shared, object_id: str
) -> tuple[InstrumentedAttribute[str | None], str]:
    """Return the column of this object in a link, and its owner. Raises StorageError for an unknown
    object."""
    if kind is Shared.COMPARISON:
        return Link.comparison_id, comparison_row(connection, object_id)["owner"]
    return Link.study_id, row_of(connection, Study, object_id, Study.owner)["owner"]


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
