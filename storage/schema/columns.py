"""Column types that store values exactly in SQLite and PostgreSQL, and the base class of all tables.

``SafeText``: any Python string (see text.py). ``SafeJson``: JSON whose strings are encoded the same way, and whose non-finite numbers are
the strings ``"nan"``, ``"inf"``, ``"-inf"`` (``float()`` reads both forms). ``ExactJson``: the same, for values of any shape: there a
non-finite number is ``{"␛": "nan"}`` and is restored to a number. ``ListJson``: lists, on PostgreSQL as JSONB, which would lose the order
of object keys and the notation of numbers. ``Real``: a double in which nan is NULL, on both databases, since SQLite has no nan; −0 becomes
0, as in SQLite. ``UtcTime``: an aware datetime, stored in UTC.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

from sqlalchemy import JSON, BigInteger, DateTime, Dialect, Double, Enum, MetaData, String, Text, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, mapped_column
from sqlalchemy.types import TypeDecorator

from storage.schema.text import ESCAPE, decode, encode, mapped


class SafeText(TypeDecorator[str]):
    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, _dialect: Dialect) -> str | None:
        return None if value is None else encode(value)

    def process_result_value(self, value: str | None, _dialect: Dialect) -> str | None:
        return None if value is None else decode(value)


class SafeJson(TypeDecorator[Any]):
    impl: Any = JSON
    cache_ok = True

    def process_bind_param(self, value: Any, _dialect: Dialect) -> Any:
        return _plain(value)

    def process_result_value(self, value: Any, _dialect: Dialect) -> Any:
        return restored(value)


class ListJson(SafeJson):
    impl: Any = JSON().with_variant(JSONB, "postgresql")
    cache_ok = True


class ExactJson(SafeJson):
    cache_ok = True

    def process_bind_param(self, value: Any, _dialect: Dialect) -> Any:
        return _plain(value, lambda number: {ESCAPE: str(number)})  # no encoded key is ESCAPE alone


class Real(TypeDecorator[float]):
    impl = Double
    cache_ok = True

    def process_bind_param(self, value: float | None, _dialect: Dialect) -> float | None:
        return None if value is None or math.isnan(value) else value + 0.0

    def process_result_value(self, value: float | None, _dialect: Dialect) -> float:
        return math.nan if value is None else value


class UtcTime(TypeDecorator[datetime]):
    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        utc = None if value is None else value.astimezone(UTC)
        return utc.replace(tzinfo=None) if utc is not None and dialect.name == "sqlite" else utc

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if dialect.name == "sqlite" else value.astimezone(UTC)


def _plain(value: Any, spell: Callable[[float], Any] = str) -> Any:
    """``value`` as plain JSON values; ``spell``: encodes a non-finite number. Raises TypeError, alike on all databases."""

    def other(value: Any) -> Any:
        if isinstance(value, float):
            return value if math.isfinite(value) else spell(value)
        if value is not None and not isinstance(value, int):
            raise TypeError(f"JSON has no type for {type(value).__name__}")
        return value

    return mapped(value, encode, other)


def restored(value: Any) -> Any:
    """The original value of a JSON column."""
    if isinstance(value, str):
        return decode(value)
    if isinstance(value, dict):
        if ESCAPE in value:
            return float(value[ESCAPE])
        return {decode(key): restored(item) for key, item in value.items()}
    if isinstance(value, list):
        return [restored(item) for item in value]
    return value


Id = Annotated[str, mapped_column(String(32), primary_key=True)]  # uuid4, hexadecimal
AnyText = Annotated[str, mapped_column(SafeText)]
Json = Annotated[Any, mapped_column(ListJson, nullable=False)]
Object = Annotated[Any, mapped_column(SafeJson, nullable=False)]
Number = Annotated[float, mapped_column(Real, nullable=True)]
Time = Annotated[datetime, mapped_column(UtcTime)]
EMPTY = text("''")  # default of columns added by later migrations
Owner = Annotated[str, mapped_column(String(64), server_default=EMPTY)]  # empty: everybody
Large = Annotated[int, mapped_column(BigInteger)]
Part = Annotated[int, mapped_column(primary_key=True, autoincrement=False)]  # of a composite key


def enum_column(enum: type[StrEnum]) -> Enum:
    """A column with the values of ``enum`` as strings, so that new values do not change the database type."""
    return Enum(enum, native_enum=False, length=16, values_callable=lambda members: [str(item) for item in members])


class Base(DeclarativeBase):
    metadata = MetaData(
        naming_convention={
            "pk": "pk_%(table_name)s",
            "fk": "fk_%(table_name)s_%(referred_table_name)s",
            "uq": "uq_%(table_name)s",
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        }
    )
