"""Lists of numbers and of parameters that are typed as text."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

from ui.settings.readers import read_number

LONGEST_LIST = 200


def named_numbers(text: str) -> dict[str, float]:
    """``name = value``, comma separated. Raises ValueError."""
    values: dict[str, float] = {}
    for part in filter(str.strip, re.split(r"[,\n]", text)):
        name, equals, value = (side.strip() for side in part.partition("="))
        if not equals or not name:
            raise ValueError(
                f"{part.strip()[:40]!r} among the other parameters is not name = value; separate them by commas."
            )
        (values[name],) = numbers(value, name) or (read_number(None, name),)
    return values


def numbers(text: str, name: str) -> tuple[float, ...]:
    """``0.8, 0.9`` or ``0.8:0.98:0.02`` (first:last:step), mixed as one likes. Raises
    ValueError."""
    parts = [part for part in re.split(r"[\s,;]+", re.sub(r"\s*:\s*", ":", text)) if part]
    values = [value for part in parts for value in _range(part, name)]
    if len(values) > LONGEST_LIST:
        raise ValueError(
            f"The list of {name} has {len(values)} numbers; it must have at most {LONGEST_LIST}."
        )
    return tuple(map(float, values))


def _range(part: str, name: str) -> list[Decimal]:
    try:
        bounds = [Decimal(number) for number in part.split(":")]
    except InvalidOperation:
        bounds = []
    if len(bounds) not in (1, 3) or not all(
        bound.is_finite() and abs(bound) < 10**15 for bound in bounds
    ):
        raise ValueError(
            f"{part[:40]!r} among the {name} is not a number or a range; write 0.8, 0.9 or "
            "0.8:0.98:0.02."
        )
    if len(bounds) == 1:
        return bounds
    first, last, step = bounds
    if step <= 0 or last < first or (last - first) / step > LONGEST_LIST:
        raise ValueError(
            f"The range {part[:40]} of {name} must rise from first to last in 1 to {LONGEST_LIST} "
            "steps above 0."
        )
    return [first + index * step for index in range(int((last - first) / step) + 1)]
