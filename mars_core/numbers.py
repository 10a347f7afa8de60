"""Reads the numbers that people and programs give, as text or JSON: on the command line, on the page,
in its address and its endpoints, as arguments of lm-eval and in the environment. One sentence names
field, value and range. The length is checked before a text is read, and a list is built no further
than it may be long."""

from __future__ import annotations

import math
import sys
from contextlib import suppress
from decimal import Decimal

from mars_core.types import number_text

MOST = sys.float_info.max
LARGEST_INTEGER = 2**63 - 1
LONGEST_NUMBER, LONGEST_LIST, MOST_NUMBERS = 40, 10_000, 200  # characters, characters and numbers
MAX_LANES = 256  # of one command or study


def number_of(value: object) -> float | None:
    """Return a finite number, or the text of one; None for anything else. A whole number is an int,
    which is exact."""
    if isinstance(value, str):
        text = value.strip()
        if len(text) > LONGEST_NUMBER or not text.isascii() or "_" in text:
            return None
        with suppress(ValueError):
            value = float(text)
            value = int(text)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= MOST:
        return None
    return int(value) if value == math.floor(value) else value


def read_number(value: object, name: str, low: float = -MOST, high: float = MOST) -> float:
    """Raises ValueError."""
    number = number_of(value)
    if number is None or not low <= number <= high:
        raise ValueError(_sentence(name, value, "a number", low, high))
    return float(number)


def read_integer(
    value: object,
    name: str,
    low: int = -LARGEST_INTEGER,
    high: int = LARGEST_INTEGER,
    word: str = "",
) -> int:
    """Read a whole number, which may be written as 5.0. ``word``: what the field takes instead of
    one, which only the sentence says. Raises ValueError."""
    number = number_of(value)
    if not isinstance(number, int) or not low <= number <= high:
        kind = _sentence(name, value, "a whole number", low, high)
        raise ValueError(f"{kind[:-1]}, or {word}." if word else kind)
    return number


def read_bias(text: str, name: str) -> tuple[str, float]:
    """Read ``WORD=VALUE``; the value -inf bans the word. Raises ValueError."""
    word, _, value = text.rpartition("=")
    number = -math.inf if value.strip() == "-inf" else number_of(value)
    if not word or number is None:
        raise ValueError(
            f"{name} is {quoted(text)}; it must be WORD=VALUE, the value a number, or -inf."
        )
    return word, float(number)


def read_numbers(text: str, name: str) -> tuple[float, ...]:
    """Read ``0.8, 0.9`` or ``0.8:0.98:0.02`` (first:last:step), mixed as one likes. Raises
    ValueError."""
    if len(text) > LONGEST_LIST:
        raise ValueError(
            f"The list of {name} has {len(text):,} characters; {LONGEST_LIST:,} are the most."
        )
    parts = text.replace(",", " ").replace(";", " ").replace(":", " : ").split()
    numbers = list[float]()
    for part in " ".join(parts).replace(" : ", ":").split():
        numbers += _range(part, name)
        if len(numbers) > MOST_NUMBERS:
            break
    if not 1 <= len(numbers) <= MOST_NUMBERS:
        has = f"has more than {MOST_NUMBERS} numbers" if numbers else "is empty"
        raise ValueError(f"The list of {name} {has}; it must have 1 to {MOST_NUMBERS}.")
    return tuple(numbers)


def read_integers(
    text: str, name: str, low: int = -LARGEST_INTEGER, high: int = LARGEST_INTEGER
) -> tuple[int, ...]:
    """Read as ``read_numbers``. Raises ValueError."""
    return tuple(
        read_integer(number_of(each), name, low, high) for each in read_numbers(text, name)
    )


def check_lanes(count: int) -> None:
    """Check it before they are built. Raises ValueError."""
    if count > MAX_LANES:
        raise ValueError(
            f"The rules, their values and the drafters make {count:,} lanes; {MAX_LANES} are the most."
        )


def quoted(value: object) -> str:
    """Quote it for a sentence."""
    if isinstance(value, int) and abs(value) > LARGEST_INTEGER:
        return number_text(value)
    return repr(value[:80] if isinstance(value, str) else value)[:80]


def _range(part: str, name: str) -> list[float]:
    bounds = [Decimal(str(read_number(each, name))) for each in part.split(":")]
    if len(bounds) == 1:
        return [float(bounds[0])]
    if len(bounds) != 3:
        raise ValueError(f"{quoted(part)} in the list of {name} is no range; write 0.8:0.98:0.02.")
    first, last, step = bounds
    if step <= 0 or last < first or (last - first) / step > MOST_NUMBERS:
        raise ValueError(
            f"The range {part[:80]} of {name} must rise from first to last in 1 to {MOST_NUMBERS} "
            "steps above 0."
        )
    return [float(first + index * step) for index in range(int((last - first) / step) + 1)]


def _sentence(name: str, value: object, kind: str, low: float, high: float) -> str:
    what = number_text(value) if isinstance(value, float) else quoted(value)
    what = "empty" if value is None or value == "" else what
    least, most = (
        str(each) if isinstance(each, int) else number_text(each) for each in (low, high)
    )
    upper = "on" if high in (MOST, LARGEST_INTEGER) else f"to {most}"
    bounds = "" if low in (-MOST, -LARGEST_INTEGER) else f" from {least} {upper}"
    return f"{name[:80]} is {what}; it must be {kind}{bounds}."
