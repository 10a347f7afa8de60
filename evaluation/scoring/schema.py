"""Whether a JSON value fits a JSON schema: type, enum, const, date, bounds, properties and items.
Other words of a schema are not looked at."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
    "null": type(None),
}

_WORDS: Mapping[str, type | tuple[type, ...]] = {  # of a schema, and what they may be
    "type": (str, list),
    "enum": list,
    "required": list,
    "properties": dict,
    "format": str,
    **dict.fromkeys(("minimum", "maximum", "minItems", "maxItems"), (int, float)),
}


def is_schema(value: Any) -> bool:
    """Return whether ``fits`` can read a value. Raises RecursionError for one nested too deeply."""
    if not isinstance(value, dict):
        return isinstance(value, bool)
    if not all(isinstance(value[name], kind) for name, kind in _WORDS.items() if name in value):
        return False
    kinds = value.get("type", [])
    names = [*value.get("required", []), *([kinds] if isinstance(kinds, str) else kinds)]
    within = [value.get(name, True) for name in ("items", "additionalProperties")]
    within += value.get("properties", {}).values()
    return all(isinstance(name, str) for name in names) and all(map(is_schema, within))


def fits(value: Any, schema: Any) -> bool:
    """Return whether a value fits; what is no schema refuses nothing."""
    if not isinstance(schema, dict):
        return True
    kinds = schema.get("type", [])
    named = [kinds] if isinstance(kinds, str) else kinds
    right = not named or any(_is(value, kind) for kind in named)
    right = right and ("enum" not in schema or any(same(value, each) for each in schema["enum"]))
    right = right and ("const" not in schema or same(value, schema["const"]))
    if isinstance(value, dict):
        return right and _members_fit(value, schema)
    if isinstance(value, list):
        most = schema.get("maxItems", len(value))
        items = (fits(each, schema.get("items")) for each in value)
        return right and schema.get("minItems", 0) <= len(value) <= most and all(items)
    if isinstance(value, str):
        return right and (schema.get("format") != "date" or _is_date(value))
    if isinstance(value, int | float):
        low, high = schema.get("minimum", value), schema.get("maximum", value)
        return right and bool(low <= value <= high)
    return right


def same(left: Any, right: Any) -> bool:
    """Return whether two JSON values are equal: 2 is 2.0, and no number is true or false."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


def _members_fit(value: Mapping[str, Any], schema: Mapping[str, Any]) -> bool:
    known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    rest = {} if others is False else others
    return (
        set(schema.get("required", ())) <= value.keys()
        and (others is not False or value.keys() <= known.keys())
        and all(fits(each, known.get(name, rest)) for name, each in value.items())
    )


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES.get(kind, object))


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
