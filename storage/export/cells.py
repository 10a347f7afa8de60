"""Values as cells of CSV files: one at a time, or an Arrow table. Missing values and nan are
empty, lists are JSON.

A text cell that a spreadsheet would take for a formula gets a leading ``'``; characters that
readers reject are written ``\\uXXXX``. A token's piece is a JSON text instead (``" the"``,
``"\\n"``): exact, and never a formula.
"""

from __future__ import annotations

import csv
import io
import json
import math
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from storage.schema.text import mapped, readable

# Characters that start a formula in a spreadsheet (OWASP, CSV injection); U+2212 is minus.
_FORMULA = frozenset("=+-@\u2212")
# Unicode categories that may be skipped before one: controls and format characters, spaces, marks
_UNSEEN = "CZM"
_FILLERS = frozenset("\u115f\u1160\u3164\uffa0\u2800")  # letters and a symbol that show nothing
PIECES = ("piece", "own_piece")


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
        case list() | tuple() | Mapping():
            return readable(json.dumps(finite(value), ensure_ascii=False))
        case _:
            return str(value)


def csv_text(table: Iterable[Sequence[Any]]) -> str:
    """Write rows of values as RFC 4180: unrounded numbers, formulas neutralised."""
    stream = io.StringIO(newline="")
    csv.writer(stream).writerows(map(cell, row) for row in table)
    return stream.getvalue()


def guarded(text: str) -> str:
    """``text`` with a leading apostrophe where a spreadsheet would take it for a formula: it begins
    with a tab or a line break, or its first visible character, in any width, starts one."""
    visible = next(
        (c for c in text if unicodedata.category(c)[0] not in _UNSEEN and c not in _FILLERS), ""
    )
    formula = (
        text.startswith(("\t", "\r", "\n"))
        or unicodedata.normalize("NFKC", visible)[:1] in _FORMULA
    )
    return f"'{text}" if formula else text


def finite(value: Any) -> Any:
    """``value`` for JSON: nan is null, infinities are strings."""

    def number(value: Any) -> Any:
        if isinstance(value, float) and not math.isfinite(value):
            return None if math.isnan(value) else str(value)
        return value

    return mapped(value, str, number)


def printable(table: pa.Table) -> pa.Table:
    """Return the columns of an exported table as numbers, booleans and texts for pyarrow's CSV
    writer."""
    return pa.table(
        {name: _printable(name, table[name].combine_chunks()) for name in table.column_names}
    )


def _printable(name: str, column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_floating(kind):
        return pa.array(column.to_numpy(zero_copy_only=False), from_pandas=True)  # nan is missing
    if name in PIECES:
        return _texts(column, json.dumps)
    if pa.types.is_string(kind) or pa.types.is_dictionary(kind):
        return _texts(column, cell)
    if pa.types.is_nested(kind) or pa.types.is_timestamp(kind):
        return pa.array(map(cell, column.to_pylist()), pa.string())
    return column


def _texts(column: pa.Array, to_text: Callable[[str], str]) -> pa.Array:
    """Converts each distinct text once."""
    coded = column.dictionary_encode()
    words = [to_text(word) for word in coded.dictionary.to_pylist()]
    return pa.array(words, pa.string()).take(coded.indices)
