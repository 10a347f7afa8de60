"""Names beside the marks of a figure: each as near as it covers nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

from display.palette import NEUTRAL
from display.plot import TEXT, FigurePart

LETTER_PX, LINE_PX, MARK_PX, LEVEL_PX = 6.6, 15, 7, 80
DISTANCES = (12, 24, 40, 60, 84)  # from the mark, in pixels
DIRECTIONS = [math.tau * turn / 12 for turn in range(12)]


class Box(NamedTuple):
    """In pixels from the left and the lower end of the axes."""

    left: float
    low: float
    right: float
    high: float

    def covers(self, other: Box) -> float:
        """Return the area that both have."""
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.high, other.high) - max(self.low, other.low)
        return max(0.0, width) * max(0.0, height)


def beside_marks(
    marks: Sequence[tuple[float, float, str]],
    x_range: Sequence[float],
    y_range: Sequence[float],
    size: tuple[float, float],
    level: float | None = None,
) -> Iterator[FigurePart]:
    """Yield an annotation for each mark, of values on both axes and an escaped name. ``size``: of
    the axes in pixels, at least; ``level``: below which a line has its own name, at the left."""

    def pixels(value: float, span: Sequence[float], length: float) -> float:
        return (value - span[0]) / (span[1] - span[0]) * length

    places = [(pixels(x, x_range, size[0]), pixels(y, y_range, size[1])) for x, y, _ in marks]
    taken = [Box(x - MARK_PX, y - MARK_PX, x + MARK_PX, y + MARK_PX) for x, y in places]
    if level is not None:
        below = pixels(level, y_range, size[1])
        taken.append(Box(0, below - LINE_PX, LEVEL_PX, below))
    for (x_value, y_value, name), (x, y) in zip(marks, places, strict=True):
        width, options = LETTER_PX * len(name), list[tuple[float, float, float, float, Box]]()
        for away, angle in product(DISTANCES, DIRECTIONS):
            right, up = away * math.cos(angle), away * math.sin(angle)
            left = x + right - (0 if right > 1 else width if right < -1 else width / 2)
            box = Box(left, y + up - LINE_PX / 2, left + width, y + up + LINE_PX / 2)
            outside = LINE_PX * width - box.covers(Box(0, 0, *size))
            options.append((outside + sum(map(box.covers, taken)), away, right, up, box))
        *_, right, up, box = min(options)
        taken.append(box)
        yield {
            **{"x": x_value, "y": y_value, "text": name, "font": {"color": TEXT}},
            **{"showarrow": True, "arrowhead": 0, "arrowwidth": 0.8, "arrowcolor": NEUTRAL},
            **{"ax": right, "ay": -up, "standoff": MARK_PX, "borderpad": 1, "yanchor": "middle"},
            "xanchor": "left" if right > 1 else "right" if right < -1 else "center",
        }
