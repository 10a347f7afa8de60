"""The comparisons and studies visible to a store: all, those of one owner, or what one link shows;
as SQL conditions.

Every connection of a store has its scope, and every statement on these tables uses it: objects
outside the scope do not exist. Runs, steps, tokens and votes are read through their comparison,
tasks and results through their study. And how rows are looked up by their id.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from sqlalchemy import ColumnElement, Connection, RowMapping, Select, false, func, select, true
from sqlalchemy.orm import InstrumentedAttribute

from storage.errors import StorageError
from storage.schema import ComparisonRow, Facet, Link, Shared, Study, StudyTask

SCOPE = "mars_scope"  # execution option of every connection of a store
EVERYBODY = ""  # the owner of objects created by an unrestricted store
OWNER_LENGTH = 64  # characters
IN_A_STATEMENT = 500  # rows that are named by their ids
Item = TypeVar("Item")
WhereConditions = tuple[ColumnElement[bool], ...]
Table = type[ComparisonRow | Study]


@dataclass(frozen=True, slots=True)
class Everything:
    """All objects. New ones belong to everybody."""

    writable: ClassVar[bool] = True
    owner: ClassVar[str] = EVERYBODY
    votes: ClassVar[WhereConditions] = ()  # of the comparisons in the scope

    def of(self, _table: Table | type[Link | Facet]) -> WhereConditions:
        return ()


@dataclass(frozen=True, slots=True)
class Owned:
    """The objects of ``owner``, including new ones."""

    owner: str
    writable: ClassVar[bool] = True
    votes: ClassVar[WhereConditions] = ()

    def of(self, table: Table | type[Link | Facet]) -> WhereConditions:
        return (table.owner == self.owner,)


@dataclass(frozen=True, slots=True)
class Linked:
    """What one link shows, read-only and as long as it is valid, without votes and other links."""

    token_hash: str
    kind: Shared
    dialect: str
    writable: ClassVar[bool] = False
    owner: ClassVar[str] = EVERYBODY
    votes: ClassVar[WhereConditions] = (false(),)

    def of(self, table: Table | type[Link | Facet]) -> WhereConditions:
        if table is Study:
            return (Study.id.in_(self._linked(Link.study_id)),)
        if table is Facet:
            return (Facet.comparison_id.in_(self._comparisons()),)
        there = ComparisonRow.deleted_at.is_(None), ComparisonRow.id.in_(self._comparisons())
        return there if table is ComparisonRow else (false(),)

    def _comparisons(self) -> Select[Any]:
        if self.kind is Shared.COMPARISON:
            return self._linked(Link.comparison_id)
        each = func.json_each(StudyTask.comparison_ids).table_valued("value")
        if self.dialect != "sqlite":
            ids = func.json_array_elements_text(StudyTask.comparison_ids)
            each = ids.table_valued("value").render_derived()
        tasks = select(each.c.value).select_from(StudyTask).join(each, true())
        return tasks.where(StudyTask.study_id.in_(self._linked(Link.study_id)))

    def _linked(self, column: InstrumentedAttribute[str | None]) -> Select[str | None]:
        """Return the id that the link shares; no row after the link is removed."""
        return select(column).where(Link.token_hash == self.token_hash, column.is_not(None))


Scope = Everything | Owned | Linked


def live(scope: Scope) -> WhereConditions:
    """Return the conditions of the comparisons in the scope that are not deleted."""
    return ComparisonRow.deleted_at.is_(None), *scope.of(ComparisonRow)


def scope_of(connection: Connection) -> Scope:
    """Return the scope of the store of a connection."""
    scope: Scope = connection.get_execution_options()[SCOPE]
    return scope


def owned_by(owner: str) -> Owned:
    """Raises ValueError for an invalid owner; the empty owner is EVERYBODY."""
    if not 1 <= len(owner) <= OWNER_LENGTH:
        raise ValueError(f"owner has {len(owner)} characters; it must have 1 to {OWNER_LENGTH}.")
    return Owned(owner)


def new_id() -> str:
    return uuid.uuid4().hex


def check_id(id_: str, noun: str = "comparison") -> None:
    """Raise StorageError for an invalid id, which databases would treat differently."""
    if re.fullmatch("[0-9a-f]{32}", id_) is None:
        raise unknown(id_, noun)


def unknown(id_: str, noun: str = "comparison") -> StorageError:
    return StorageError(f"There is no {noun} with the id {id_[:64]!r}.")


def row_of(connection: Connection, table: Table, id_: str, *columns: Any) -> RowMapping:
    """``columns`` of the comparison or study with this id. Raises StorageError if it is not in the
    scope."""
    noun = "study" if table is Study else "comparison"
    check_id(id_, noun)
    statement = select(*(columns or (table.id,))).where(
        table.id == id_, *scope_of(connection).of(table)
    )
    row = connection.execute(statement).mappings().one_or_none()
    if row is None:
        raise unknown(id_, noun)
    return row


def check_page(limit: int, offset: int = 0) -> None:
    if limit < 0 or offset < 0:
        raise StorageError(f"limit and offset must be 0 or more, not {limit} and {offset}.")


def batches(items: Sequence[Item], size: int = IN_A_STATEMENT) -> Iterator[Sequence[Item]]:
    """``items`` in order, at most ``size`` at a time: the number of parameters of a statement is
    limited."""
    return (items[start : start + size] for start in range(0, len(items), size))
