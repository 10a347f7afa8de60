"""Texts are stored as they are, U+FFFD for what cannot be: an escape of earlier versions (U+241B and
four hexadecimal digits) goes, as do the objects that stood for odd numbers in plans. Lists are JSON
on both databases. Traces have every column. A damaged value stays as it is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

from storage.migrations.traces_1 import read_first
from storage.traces.packing import BROKEN, VERSION, pack, whole

revision = "0017"
down_revision = "0016"
RUNS_A_READ = 20
ESCAPE = "\u241b"
_ESCAPED = re.compile(f"{ESCAPE}([0-9a-f]{{4}})")
_ODD = re.compile(f'{{"{ESCAPE}": ?("-?(?:nan|inf)")}}')
_IN_SEARCH = re.compile("Y[A-P]{4}")  # a folded text has no other capitals but Z
_JSONB = (
    "SELECT table_name, column_name, column_default FROM information_schema.columns "
    "WHERE data_type = 'jsonb' AND table_schema = current_schema()"
)
_NOT_THERE = (  # of facets, the only text in a key
    " AND NOT EXISTS (SELECT 1 FROM facets AS other WHERE other.value = :new "
    "AND other.kind = facets.kind AND other.comparison_id = facets.comparison_id)"
)
_TRACES = sa.table("run_traces", *map(sa.column, ("run_id", "version", "data")))
_RUNS = sa.table("runs", *map(sa.column, ("id", "seed")))


def upgrade() -> None:
    connection = op.get_bind()
    if connection.dialect.name == "postgresql":
        for table, column, default in connection.exec_driver_sql(_JSONB).all():
            change = f"ALTER TABLE {table} ALTER COLUMN {column}"
            op.execute(
                f"{change} DROP DEFAULT, ALTER COLUMN {column} TYPE JSON USING {column}::json"
            )
            if default:
                op.execute(f"{change} SET DEFAULT {default.removesuffix('::jsonb')}")
    inspector = sa.inspect(connection)
    for table in inspector.get_table_names():
        if not table.startswith("comparison_"):  # of the full-text index
            keys = inspector.get_pk_constraint(table)["constrained_columns"]
            for column in inspector.get_columns(table):
                if isinstance(column["type"], sa.Text | sa.JSON):
                    _unescape(connection, table, keys, column)
    for some in _traces(connection):
        for row in some:
            try:
                data = pack(whole(read_first(row.data, row.seed, plain)))
            except BROKEN:
                continue
            write = sa.update(_TRACES).where(_TRACES.c.run_id == row.run_id)
            connection.execute(write.values(version=VERSION, data=data))


def plain(stored: str) -> str:
    """Return a text of an earlier version, or of its JSON, without escapes."""

    def character(match: re.Match[str]) -> str:
        return ESCAPE if match[1] == f"{ord(ESCAPE):04x}" else "\ufffd"

    return _ESCAPED.sub(character, _ODD.sub(r"\1", stored))


def _unescape(connection: sa.Connection, table: str, keys: Sequence[str], column: Any) -> None:
    name, json = column["name"], isinstance(column["type"], sa.JSON)
    search = name == "search"
    of_row = " AND ".join(f"{key} = :{key}" for key in keys)
    read = f"SELECT CAST({name} AS TEXT) FROM {table} WHERE {of_row}"
    new = "CAST(:new AS JSON)" if json and connection.dialect.name == "postgresql" else ":new"
    write = f"UPDATE {table} SET {name} = {new} WHERE {of_row}"
    if name in keys:
        write += _NOT_THERE
    marked = f"SELECT {', '.join(keys)} FROM {table} WHERE CAST({name} AS TEXT) LIKE :mark"
    mark = {"mark": "%Y%" if search else f"%{ESCAPE}%"}
    for row in connection.execute(sa.text(marked), mark).mappings().all():
        stored = connection.execute(sa.text(read), dict(row)).scalar_one()
        text = _IN_SEARCH.sub("\ufffd", stored) if search else plain(stored)
        if text.isascii() or text == text.encode("utf-8", "replace").decode():  # else damaged
            connection.execute(sa.text(write), dict(row) | {"new": text})


def _traces(connection: sa.Connection) -> Iterator[Sequence[Any]]:
    """Yield the traces of the first format, a few at a time."""
    statement = sa.select(_TRACES.c.run_id, _TRACES.c.data, _RUNS.c.seed)
    statement = statement.join(_RUNS, _RUNS.c.id == _TRACES.c.run_id)
    statement = statement.where(_TRACES.c.version == 1).order_by(_TRACES.c.run_id)
    some = connection.execute(statement.limit(RUNS_A_READ)).all()
    while some:
        yield some
        later = statement.where(_TRACES.c.run_id > some[-1].run_id)
        some = connection.execute(later.limit(RUNS_A_READ)).all()
