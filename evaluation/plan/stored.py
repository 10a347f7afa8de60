"""Converts plans and results to plain values for the store, and back."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")
_fields = cache(get_type_hints)
_NOT_FINITE = frozenset(map(str, (math.inf, -math.inf, math.nan)))


def plain(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass; non-finite numbers become strings."""
    return {name: _plain(each) for name, each in asdict(value).items()}


@contextmanager
def readable() -> Iterator[None]:
    """Raises ValueError where this version cannot read what is stored."""
    try:
        yield
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(
            f"The study was saved by another version of this program; {error} does not fit."
        ) from None


@readable()
def read(kind: type[T], stored: Mapping[str, Any], *needed: str) -> T:
    """Read the dataclass of ``plain``, also after conversion to JSON and back. ``needed``: fields
    that are required though they have a default.

    Raises ValueError if this version cannot read it.
    """
    for name in needed:
        stored[name]
    value: T = _read(kind, stored)
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _read(kind: Any, value: Any) -> Any:
    """``value`` as ``kind``: a dataclass, a tuple or mapping of one kind, None or a kind, an enum,
    a number, a text, a number or a text."""
    arguments = get_args(kind)
    if get_origin(kind) is UnionType:
        text = str in arguments and isinstance(value, str) and value not in _NOT_FINITE
        return value if value is None or text else _read(arguments[0], value)
    if get_origin(kind) is tuple:
        return tuple(_read(arguments[0], each) for each in value)
    if get_origin(kind) is Mapping:
        return {name: _read(arguments[1], each) for name, each in value.items()}
    if is_dataclass(kind) and isinstance(kind, type):
        kinds = _fields(kind)
        return kind(**{name: _read(kinds[name], each) for name, each in value.items()})
    return (
        kind(value)
        if issubclass(kind, Enum) or (kind is float and isinstance(value, str))
        else value
    )
