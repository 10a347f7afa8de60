"""Links in the database: to read one comparison, sweep or study. Knows no addresses and opens no transaction.

The token of a link is told once, to whoever shares; the table has its SHA-256. It is random and long, so a plain hash is enough.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import ColumnElement, Connection, delete, exists, func, insert, or_, select, update
from sqlalchemy.orm import InstrumentedAttribute

from storage.claims import check_study
from storage.columns import SafeText
from storage.comparisons import comparison_row
from storage.errors import StorageError
from storage.schema import Comparison, Sweep
from storage.scope import Linked, scope_of
from storage.share_schema import Link
from storage.studies import is_sweep
from storage.study_schema import Study
from storage.sweeps import check_sweep
from storage.text import readable
from storage.words import Shared

TOKEN_BYTES = 32
TITLE_LENGTH = 120  # characters
ENDED = "This link is not valid any more: what it showed is no longer shared."
_TOKEN = re.compile("[A-Za-z0-9_-]{32,128}")
_OBJECT = {Shared.COMPARISON: Link.comparison_id, Shared.SWEEP: Link.sweep_id, Shared.STUDY: Link.study_id}
_TABLE: dict[str, type[Comparison | Sweep | Study]] = {
    Link.comparison_id.key: Comparison,
    Link.sweep_id.key: Sweep,
    Link.study_id.key: Study,
}


@dataclass(frozen=True, slots=True)
class Share:
    """Something that whoever has its link can read. ``title``: its name, else the beginning of its prompt, made readable."""

    kind: Shared
    object_id: str
    created_at: datetime
    title: str


def add_share(connection: Connection, kind: Shared, object_id: str) -> str:
    """The token of a new link, which ends an earlier one. Raises StorageError where there is no such object."""
    column = _column(connection, kind, object_id)
    token, table = secrets.token_urlsafe(TOKEN_BYTES), _TABLE[column.key]
    connection.execute(delete(Link).where(column == object_id))
    owner = connection.execute(select(table.owner).where(table.id == object_id)).scalar_one()
    row = {"token_hash": _hash(token), "owner": owner, "created_at": datetime.now(UTC), column.key: object_id}
    connection.execute(insert(Link), row)
    return token


def remove_share(connection: Connection, kind: Shared, object_id: str) -> None:
    connection.execute(delete(Link).where(_column(connection, kind, object_id) == object_id))


def is_shared(connection: Connection, kind: Shared, object_id: str) -> bool:
    column, mine = _column(connection, kind, object_id), scope_of(connection).links()
    return connection.execute(select(exists().where(column == object_id, *mine))).scalar_one()


def all_shares(connection: Connection) -> tuple[Share, ...]:
    """Latest first; without comparisons that are put away."""
    title = func.coalesce(
        func.nullif(Comparison.name, ""), func.substr(Comparison.prompt, 1, TITLE_LENGTH), Study.name, ""
    )
    statement = (
        select(*_OBJECT.values(), Link.created_at, title.cast(SafeText).label("title"), is_sweep().label("sweep"))
        .outerjoin(Comparison, Comparison.id == Link.comparison_id)
        .outerjoin(Study, Study.id == Link.study_id)
        .where(_live(), *scope_of(connection).links())
        .order_by(Link.created_at.desc(), Link.token_hash)
    )
    return tuple(
        Share(Shared.SWEEP if row.sweep else kind, object_id, row.created_at, readable(row.title))
        for row in connection.execute(statement)
        for kind, object_id in zip(_OBJECT, row, strict=False)
        if object_id is not None
    )


def opened(connection: Connection, token: str) -> Linked:
    """What the link with this token shows. Raises StorageError where it shows nothing."""
    row = None
    if _TOKEN.fullmatch(token) is not None:
        statement = select(*_OBJECT.values()).outerjoin(Comparison, Comparison.id == Link.comparison_id)
        row = connection.execute(statement.where(Link.token_hash == _hash(token), _live())).one_or_none()
    if row is None:
        raise StorageError(ENDED)
    (kind,) = (kind for kind, object_id in zip(_OBJECT, row, strict=True) if object_id is not None)
    return Linked(_hash(token), kind, connection.dialect.name)


def give_shares(connection: Connection, owner_from: str, owner_to: str) -> None:
    connection.execute(update(Link).where(Link.owner == owner_from).values(owner=owner_to))


def _live() -> ColumnElement[bool]:
    return or_(Link.comparison_id.is_(None), Comparison.deleted_at.is_(None))


def _column(connection: Connection, kind: Shared, object_id: str) -> InstrumentedAttribute[str | None]:
    """Where a link names this object: a sweep is a study unless it is of an earlier release. Raises StorageError where there is none."""
    match kind:
        case Shared.COMPARISON:
            comparison_row(connection, object_id)
            return Link.comparison_id
        case Shared.STUDY:
            check_study(connection, object_id)
            return Link.study_id
        case Shared.SWEEP:
            with suppress(StorageError):
                check_study(connection, object_id)
                return Link.study_id
            check_sweep(connection, object_id)
            return Link.sweep_id


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
