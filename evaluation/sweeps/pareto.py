"""Which of several options nothing else beats in both respects. Standard library only; knows no run."""

from __future__ import annotations

import math
from collections.abc import Sequence


def front(options: Sequence[tuple[float, float]]) -> tuple[int, ...]:
    """Indices of the Pareto-optimal options by rising cost; an option is (cost, gain): less cost and more gain are better.

    One option beats another that costs no less and gains no more, unless both are equal. Options with a nan take no part.
    """
    known = [index for index, option in enumerate(options) if not any(map(math.isnan, option))]
    found: list[int] = []
    for index in sorted(known, key=lambda index: (options[index][0], -options[index][1])):
        if not found or options[index][1] > options[found[-1]][1] or options[index] == options[found[-1]]:
            found.append(index)
    return tuple(found)
