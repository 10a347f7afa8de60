"""How long a request's texts and lists may be, by the name of the field. Checked where all events and
calls arrive, before anything reads them, and of a panel's JSON when it is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

PANEL = "panel"  # the JSON or HTML of a component
LONGEST, MOST = 4_000, 300  # characters of a text and values of a list that have no row below
TEXTS: Mapping[str, int] = {
    PANEL: 4_000_000,
    "html": 4_000_000,
    "compare-beside": 40_000_000,  # with a saved answer of each lane
    "votes-beside": 40_000_000,
    "prompt": 1_000_000,
    "votes-prompt": 1_000_000,
    "follow-up-question": 1_000_000,
    "prompts": 200_000,  # of a study
    "references": 200_000,
    "system": 100_000,
    "stop": 20_000,
    "logit_bias": 20_000,
    "protect": 20_000,
    "rules": 20_000,
    "comment": 10_000,
    "votes-comment": 10_000,
}
LISTS: Mapping[str, int] = {"prefix": 100_000}


class LengthError(ValueError):
    """A text or a list is too long; in one sentence."""


def check_lengths(values: Iterable[tuple[str, object]]) -> None:
    """Check these fields and all in them. Raises LengthError for one that is too long."""
    waiting = [*values]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, str):
            _check(name, len(value), TEXTS.get(name, LONGEST), "characters")
        elif isinstance(value, Mapping | list | tuple):
            _check(name, len(value), LISTS.get(name, MOST), "values")
            waiting += _inner(name, value)


def _inner(name: str, value: Any) -> Iterable[tuple[str, object]]:
    if not isinstance(value, Mapping):
        return ((name, each) for each in value)
    check_lengths(("a name", str(key)) for key in value)
    return ((str(key), each) for key, each in value.items())


def _check(name: str, length: int, most: int, what: str) -> None:
    if length > most:
        raise LengthError(f"{name[:80]} has {length:,} {what}; {most:,} are the most.")
