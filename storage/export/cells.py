"""Values as exports show them: JSON columns with named fields, and CSV cells, one at a time or a column as it is stored."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Integer
from sqlalchemy.types import TypeEngine

from mars_core.types import Exchange, Given
from storage.schema.columns import Real, SafeJson, SafeText, restored
from storage.schema.text import decode, readable

# What a spreadsheet may take for the beginning of a formula (OWASP, CSV injection), full-width forms included.
_FORMULA = re.compile("[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
_STRUCTURE = re.compile('[",\r\n]')  # what a cell without quotes may not hold
_WORDS = {"nan": "null", "inf": '""inf""', "-inf": '""-inf""'}  # a number that is no JSON, as stored → as written
_SHAPES: dict[str, Callable[[Any], Any]] = {
    "top": lambda value: [{"id": id_, "piece": piece, "p": float(p)} for id_, piece, p in value],
    "rule_parameters": lambda value: {name: float(number) for name, number in value.items()},
    "acceptance_by_position": lambda value: [float(rate) for rate in value],
    "given": lambda value: [Given(*token)._asdict() for token in value],
    "history": lambda value: [Exchange(*turn)._asdict() for turn in value],
}


def shaped(name: str, texts: Sequence[str]) -> list[Any]:
    """The values of the JSON column ``name``; texts in them are spelled as stored, non-finite numbers are floats."""
    values: list[Any] = json.loads(f"[{','.join(texts)}]")
    return list(map(_SHAPES[name], values)) if name in _SHAPES else values


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
            return readable(json.dumps(finite(value), ensure_ascii=False))
        case _:
            return str(value)


def guarded(text: str) -> str:
    """``text`` with a leading apostrophe where a spreadsheet would take it for a formula."""
    return f"'{text}" if _FORMULA.match(text) else text


def quoted(text: str) -> str:
    """``text`` as it stands in a row: in quotes where it must be, those in it doubled."""
    return '"' + text.replace('"', '""') + '"' if _STRUCTURE.search(text) else text


def cells(name: str, kind: TypeEngine[Any], values: Sequence[Any]) -> Sequence[str]:
    """A stored column as ``quoted`` and ``cell`` would write it, a text once however often it occurs."""
    match kind:
        case Real() | Integer():
            return ["" if value is None else repr(value) for value in values]
        case SafeJson() if name == "top":
            return _alternatives(values)
        case SafeJson():
            return [quoted(cell(restored(value))) for value in shaped(name, values)]
        case SafeText():
            shown = {text: quoted(cell(text and decode(text))) for text in set(values)}
        case _:
            shown = {value: cell(value) for value in set(values)}
    return [shown[value] for value in values]


def _alternatives(values: Sequence[str]) -> list[str]:
    """The column ``top``, in quotes. Numbers keep the digits in which they are stored: they would come out the same."""
    rows = json.loads(f"[{','.join(values)}]", parse_float=str)
    pieces = {piece for row in rows for _, piece, _ in row}
    shown = {piece: readable(json.dumps(decode(piece), ensure_ascii=False)).replace('"', '""') for piece in pieces}
    return [
        '"[' + ", ".join([
            f'{{""id"": {id_}, ""piece"": {shown[piece]}, ""p"": {_WORDS.get(p, p)}}}' for id_, piece, p in row
        ]) + ']"' if row else "[]"
        for row in rows
    ]  # fmt: skip


def finite(value: Any) -> Any:
    """``value`` as JSON can hold it: nan is null, infinities are words."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if isinstance(value, list):
        return [finite(item) for item in value]
    return {key: finite(item) for key, item in value.items()} if isinstance(value, dict) else value
