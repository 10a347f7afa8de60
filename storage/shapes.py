"""What the JSON columns hold, as an export shows it: named fields, exact numbers. Knows no file format."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from mars_core.types import Exchange, Given
from storage.text import decode

_SHAPES: dict[str, Callable[[Any], Any]] = {
    "top": lambda value: [{"id": id_, "piece": piece, "p": float(p)} for id_, piece, p in value],
    "rule_parameters": lambda value: {name: float(number) for name, number in value.items()},
    "acceptance_by_position": lambda value: [float(rate) for rate in value],
    "given": lambda value: [Given(*token)._asdict() for token in value],
    "history": lambda value: [Exchange(*turn)._asdict() for turn in value],
}


def shaped(name: str, texts: Sequence[str]) -> list[Any]:
    """The values of the column ``name``; texts in them are in the spelling of storage.text, non-finite numbers are floats."""
    values: list[Any] = json.loads(f"[{','.join(texts)}]")
    return list(map(_SHAPES[name], values)) if name in _SHAPES else values


def decoded(value: Any) -> Any:
    """``value`` with every text as it was given to the database."""
    if isinstance(value, str):
        return decode(value)
    if isinstance(value, list):
        return [decoded(item) for item in value]
    return {decode(key): decoded(item) for key, item in value.items()} if isinstance(value, dict) else value
