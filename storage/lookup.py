"""Rows by id, and pages of rows, with checks of the arguments."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from sqlalchemy import Connection, RowMapping, select

from storage.errors import StorageError
from storage.scope import Table, scope_of

Item = TypeVar("Item")


def new_id() -> str:
    return uuid.uuid4().hex


def check_id(id_: str, noun: str = "comparison") -> None:
    """Raise StorageError for an invalid id, which databases would treat differently."""
    if re.fullmatch("[0-9a-f]{32}", id_) is None:
        raise unknown(id_, noun)


def unknown(id_: str, noun: str = "comparison") -> StorageError:
    return StorageError(f"There is no {noun} with the id {id_[:64]!r}.")


def row_of(connection: Connection, table: Table, id_: str, *columns: Any) -> RowMapping:
    """``columns`` of the comparison, sweep or study with this id. Raises StorageError if it is not in the scope."""
    noun = table.__name__.lower()
    check_id(id_, noun)
    statement = select(*(columns or (table.id,))).where(table.id == id_, *scope_of(connection).of(table))
    row = connection.execute(statement).mappings().one_or_none()
    if row is None:
        raise unknown(id_, noun)
    return row


def check_page(limit: int, offset: int = 0) -> None:
    if limit < 0 or offset < 0:
        raise StorageError(f"limit and offset must be 0 or more, not {limit} and {offset}.")


def batches(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """``items`` in order, at most ``size`` at a time: the number of parameters of a statement is limited."""
    return (items[start : start + size] for start in range(0, len(items), size))
