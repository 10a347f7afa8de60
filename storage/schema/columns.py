"""Column types with the same values in SQLite and PostgreSQL, and the base class of all tables.

``SafeText``: any string, as text.py says. ``SafeJson``: JSON of such strings, whose non-finite
numbers are the strings ``"nan"``, ``"inf"``, ``"-inf"`` (``float()`` reads both forms). ``Real``: a
double in which nan is NULL, on both databases, since SQLite has no nan; −0 becomes 0, as in SQLite.
``UtcTime``: an aware datetime, stored in UTC.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, ClassVar, get_origin

import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, MappedColumn, mapped_column
from sqlalchemy.types import TypeDecorator

from mars_core.types import Processors, Summary
from storage.schema.text import mapped, storable
from storage.schema.trace import TraceField


class SafeText(TypeDecorator[str]):
    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, _dialect: sa.Dialect) -> str | None:
        return None if value is None else storable(value)

    def process_result_value(self, value: str | None, _dialect: sa.Dialect) -> str | None:
        return None if value is None else checked_text(value)


class SafeJson(TypeDecorator[Any]):
    impl = sa.JSON
    cache_ok = True

    def process_bind_param(self, value: Any, _dialect: sa.Dialect) -> Any:
        return mapped(value, storable, _plain)


class Real(TypeDecorator[float]):
    impl = sa.Double
    cache_ok = True

    def process_bind_param(self, value: float | None, _dialect: sa.Dialect) -> float | None:
        return None if value is None or math.isnan(value) else value + 0.0

    def process_result_value(self, value: float | None, _dialect: sa.Dialect) -> float:
        return math.nan if value is None else value


class UtcTime(TypeDecorator[datetime]):
    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:
        utc = None if value is None else value.astimezone(UTC)
        return utc.replace(tzinfo=None) if utc is not None and dialect.name == "sqlite" else utc

    def result_processor(self, dialect: sa.Dialect, coltype: object) -> Any:
        read = super().result_processor(dialect, coltype)

        def process(value: Any) -> Any:
            try:
                return read(value) if read else value
            except (TypeError, ValueError):
                raise LookupError(f"{ascii(value)[:60]} is not a time") from None

        return process

    def process_result_value(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if dialect.name == "sqlite" else value.astimezone(UTC)


def checked_text(text: str) -> str:
    """Return ``text``. Raises UnicodeError for one whose stored bytes were not UTF-8."""
    if not text.isascii():
        text.encode()
    return text


def _plain(value: Any) -> Any:
    """Return a value of JSON that is no text, list or object. Raises TypeError, alike on all
    databases."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is not None and not isinstance(value, int | float):
        raise TypeError(f"JSON has no type for {type(value).__name__}")
    return value


def loads(text: str | bytes) -> Any:
    """Return the value of a JSON column."""
    return json.loads(checked_text(text.decode() if isinstance(text, bytes) else text))


Id = Annotated[str, mapped_column(sa.String(32), primary_key=True)]  # uuid4, hexadecimal
EMPTY = sa.text("''")  # default of columns added by later migrations
Owner = Annotated[str, mapped_column(sa.String(64), server_default=EMPTY)]  # empty: everybody
Part = Annotated[int, mapped_column(primary_key=True, autoincrement=False)]  # of a composite key


def enum_column(enum: type[StrEnum]) -> sa.Enum:
    """Return a column with the values of ``enum`` as strings, so that new values do not change the
    database type."""
    return sa.Enum(
        enum,
        native_enum=False,
        length=16,
        values_callable=lambda members: [str(item) for item in members],
    )


class Base(DeclarativeBase):
    metadata = sa.MetaData(
        naming_convention={
            "pk": "pk_%(table_name)s",
            "fk": "fk_%(table_name)s_%(referred_table_name)s",
            "uq": "uq_%(table_name)s",
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        }
    )
    type_annotation_map: ClassVar = {
        str: SafeText,
        float: Real,
        datetime: UtcTime,
        bytes: sa.LargeBinary,
        list[Any]: SafeJson,
        dict[str, Any]: SafeJson,
        StrEnum: enum_column(StrEnum),
    }


def column_of(field: TraceField) -> MappedColumn[Any]:
    """Return the column of a field of a trace."""
    kind = get_origin(field.kind) or field.kind
    types = {
        tuple: SafeJson,
        Mapping: SafeJson,
        Processors: SafeJson,
        int: sa.Integer,
        bool: sa.Boolean,
        str: SafeText,
        float: Real,
    }
    # of columns added by later migrations
    defaults = {
        "prefix": "[]",
        "spent": "[]",
        "given": "[]",
        "history": "[]",
        "processors": "{}",
    } | {each.name: str(each.default) for each in fields(Summary) if isinstance(each.default, int)}
    default = EMPTY if field.column == "structure" else defaults.get(field.column)
    return mapped_column(
        types.get(kind) or enum_column(kind),
        nullable=field.optional or kind is float,
        server_default=default,
    )
