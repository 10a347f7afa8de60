"""Runs, tokens, drafted nodes and votes as CSV (for people and spreadsheets) and Parquet (the lossless form). Knows no page.

Both have one row a run, a token, a node or a vote, in the order in which the comparisons were made, and are written in constant memory.
Column names are the terms of docs/verification.md; ``schema_version`` comes first.

CSV: RFC 4180, UTF-8, CRLF; times ISO 8601 in UTC; a missing value or nan is an empty cell; lists are JSON. A text cell
that a spreadsheet would take for a formula gets a leading ``'``; characters that no reader can take are written
``\\uXXXX``. Parquet: texts in the spelling of storage.text (its ``decode`` gives the exact string), nan as nan, lists
and maps as such.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.parquet as pq
from sqlalchemy import BigInteger, Boolean, ColumnElement, Integer

from storage.columns import Real, UtcTime
from storage.errors import explained
from storage.rows import (
    NODE_COLUMNS,
    RUN_COLUMNS,
    SCHEMA_VERSION,
    TOKEN_COLUMNS,
    VOTE_COLUMNS,
    Row,
    node_rows,
    run_rows,
    token_rows,
    vote_rows,
)
from storage.store import RunStore
from storage.text import encode, readable

RUNS_A_GROUP = 100
TOKENS_A_GROUP = 5000
NODES_A_GROUP = 20_000
VOTES_A_GROUP = 1000
# What a spreadsheet may take for the beginning of a formula (OWASP, CSV injection), full-width forms included.
_FORMULA = re.compile("[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
_NESTED = {
    "stop": pa.list_(pa.string()),
    "tags": pa.list_(pa.string()),
    "rule_parameters": pa.map_(pa.string(), pa.float64()),
    "acceptance_by_position": pa.list_(pa.float64()),
    "environment": pa.map_(pa.string(), pa.string()),
    "prompt_ids": pa.list_(pa.int64()),
    "prefix": pa.list_(pa.int64()),
    "given": pa.list_(
        pa.struct([("id", pa.int64()), ("piece", pa.string()), ("start", pa.int64()), ("end", pa.int64())])
    ),
    "top": pa.list_(pa.struct([("id", pa.int64()), ("piece", pa.string()), ("p", pa.float64())])),
}


def write_runs_csv(store: RunStore, stream: TextIO, comparison_ids: Iterable[str] | None = None) -> None:
    """All runs, or those of some comparisons, to a text stream opened with ``encoding="utf-8", newline=""``."""
    _write_csv(stream, RUN_COLUMNS, run_rows(store, comparison_ids))


def write_tokens_csv(store: RunStore, stream: TextIO, comparison_ids: Iterable[str] | None = None) -> None:
    """All tokens, the rejected ones included, to a text stream opened with ``encoding="utf-8", newline=""``."""
    _write_csv(stream, TOKEN_COLUMNS, token_rows(store, comparison_ids))


def write_nodes_csv(store: RunStore, stream: TextIO, comparison_ids: Iterable[str] | None = None) -> None:
    """All drafted nodes, kept or not, to a text stream opened with ``encoding="utf-8", newline=""``."""
    _write_csv(stream, NODE_COLUMNS, node_rows(store, comparison_ids))


def write_votes_csv(store: RunStore, stream: TextIO, comparison_ids: Iterable[str] | None = None) -> None:
    """All blind votes, to a text stream opened with ``encoding="utf-8", newline=""``."""
    _write_csv(stream, VOTE_COLUMNS, vote_rows(store, comparison_ids))


def write_runs_parquet(store: RunStore, path: Path, comparison_ids: Iterable[str] | None = None) -> None:
    """All runs, or those of some comparisons, to the file ``path``, which appears whole or not at all."""
    _write_parquet(path, RUN_COLUMNS, run_rows(store, comparison_ids), RUNS_A_GROUP)


def write_tokens_parquet(store: RunStore, path: Path, comparison_ids: Iterable[str] | None = None) -> None:
    """All tokens, the rejected ones included, to the file ``path``, which appears whole or not at all."""
    _write_parquet(path, TOKEN_COLUMNS, token_rows(store, comparison_ids), TOKENS_A_GROUP)


def write_nodes_parquet(store: RunStore, path: Path, comparison_ids: Iterable[str] | None = None) -> None:
    """All drafted nodes, kept or not, to the file ``path``, which appears whole or not at all."""
    _write_parquet(path, NODE_COLUMNS, node_rows(store, comparison_ids), NODES_A_GROUP)


def write_votes_parquet(store: RunStore, path: Path, comparison_ids: Iterable[str] | None = None) -> None:
    """All blind votes, to the file ``path``, which appears whole or not at all."""
    _write_parquet(path, VOTE_COLUMNS, vote_rows(store, comparison_ids), VOTES_A_GROUP)


def cell(value: object) -> str:
    """``value`` as the text of a CSV cell."""
    match value:
        case None:
            return ""
        case str():
            return guarded(readable(value))
        case bool():
            return str(value).lower()
        case float():
            return "" if math.isnan(value) else repr(value)
        case datetime():
            return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        case list() | dict():
            return readable(json.dumps(_finite(value), ensure_ascii=False))
        case _:
            return str(value)


def guarded(text: str) -> str:
    """``text`` with a leading apostrophe where a spreadsheet would take it for a formula."""
    return f"'{text}" if _FORMULA.match(text) else text


def _names(columns: Sequence[ColumnElement[Any]]) -> list[str]:
    return ["schema_version", *(str(column.name) for column in columns)]


def _write_csv(stream: TextIO, columns: Sequence[ColumnElement[Any]], rows: Iterator[Row]) -> None:
    names = _names(columns)
    writer = csv.writer(stream)  # the excel dialect is RFC 4180: CRLF, quotes doubled and only where needed
    writer.writerow(names)
    writer.writerows([cell(row[name]) for name in names] for row in rows)


def _finite(value: Any) -> Any:
    """``value`` as JSON can hold it: nan is null, infinities are words."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return {key: _finite(item) for key, item in value.items()} if isinstance(value, dict) else value


def _write_parquet(path: Path, columns: Sequence[ColumnElement[Any]], rows: Iterator[Row], rows_a_group: int) -> None:
    schema = _arrow_schema(columns)
    part = path.with_name(path.name + ".part")
    with explained("The Parquet file was not written", str(path)):
        try:
            with pq.ParquetWriter(part, schema, compression="zstd") as writer:
                while group := [_arrow(row) for row in islice(rows, rows_a_group)]:
                    writer.write_table(pa.Table.from_pylist(group, schema=schema))
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


def _arrow_schema(columns: Sequence[ColumnElement[Any]]) -> Any:
    fields = [pa.field("schema_version", pa.int64())]
    fields += [
        pa.field(name, _arrow_type(name, column)) for name, column in zip(_names(columns)[1:], columns, strict=True)
    ]
    about = {
        "schema_version": str(SCHEMA_VERSION),
        "text": "U+241B and 4 hex digits stand for U+0000, U+D800-DFFF, U+241B",
    }
    return pa.schema(fields, metadata=about)


def _arrow_type(name: str, column: ColumnElement[Any]) -> Any:
    if name in _NESTED:
        return _NESTED[name]
    kinds = {
        Real: pa.float64(),
        UtcTime: pa.timestamp("us", "UTC"),
        Boolean: pa.bool_(),
        Integer: pa.int64(),
        BigInteger: pa.int64(),
    }
    return next((arrow for kind, arrow in kinds.items() if isinstance(column.type, kind)), pa.string())


def _arrow(row: Row) -> Row:
    return {name: _spelled(value) for name, value in row.items()}


def _spelled(value: Any) -> Any:
    """``value`` with every string encoded; maps outside of lists become pairs, as Arrow takes them."""
    if isinstance(value, str):
        return encode(value)
    if isinstance(value, list):
        return [
            {key: _spelled(part) for key, part in item.items()} if isinstance(item, dict) else _spelled(item)
            for item in value
        ]
    return [(encode(key), _spelled(item)) for key, item in value.items()] if isinstance(value, dict) else value
