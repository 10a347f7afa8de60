"""Names beside the marks of a figure: each where it covers least."""

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
# What covering a pixel of these costs; a pixel of distance: 8.
NAME, POINT, BAR, OUTSIDE = 100, 8, 1, 100

Ends = tuple[float, float, float]  # a value and both ends of its interval


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
    marks: Sequence[tuple[Ends, Ends, str]],
    x_range: Sequence[float],
    y_range: Sequence[float],
    size: tuple[float, float],
    level: float | None = None,
) -> Iterator[FigurePart]:
    """Yield an annotation for each mark, of values on both axes and an escaped name. ``size``: of
    the axes in pixels, at least; ``level``: below which a line has its own name, at the left."""

    def pixels(ends: Ends, span: Sequence[float], length: float) -> list[float]:
        places = [(end - span[0]) / (span[1] - span[0]) * length for end in ends]
        return [place if math.isfinite(place) else places[0] for place in places]

    taken = list[tuple[float, Box]]()
    places = [(pixels(x, x_range, size[0]), pixels(y, y_range, size[1])) for x, y, _ in marks]
    for (x, left, right), (y, low, high) in places:
        taken.append((POINT, Box(x - MARK_PX, y - MARK_PX, x + MARK_PX, y + MARK_PX)))
        taken += [(BAR, Box(left, y - 1, right, y + 1)), (BAR, Box(x - 1, low, x + 1, high))]
    if level is not None:
        below = pixels((level, level, level), y_range, size[1])[0]
        taken.append((NAME, Box(0, below - LINE_PX, LEVEL_PX, below)))
    whole = Box(0, 0, *size)

    def cost(box: Box) -> float:
        area = (box.right - box.left) * (box.high - box.low)
        return OUTSIDE * (area - whole.covers(box)) + sum(
            each * other.covers(box) for each, other in taken
        )

    for (x_ends, y_ends, name), ((x, *_), (y, *_)) in zip(marks, places, strict=True):
        width, options = LETTER_PX * len(name), list[tuple[float, float, float, Box]]()
        for away, angle in product(DISTANCES, DIRECTIONS):
            right, up = away * math.cos(angle), away * math.sin(angle)
            left = x + right - (0 if right > 1 else width if right < -1 else width / 2)
            box = Box(left, y + up - LINE_PX / 2, left + width, y + up + LINE_PX / 2)
            options.append((cost(box) + 8 * away, right, up, box))
        _, right, up, box = min(options)
        taken.append((NAME, box))
        yield {
            **{"x": x_ends[0], "y": y_ends[0], "text": name, "font": {"color": TEXT}},
            **{"showarrow": True, "arrowhead": 0, "arrowwidth": 0.8, "arrowcolor": NEUTRAL},
            **{"ax": right, "ay": -up, "standoff": MARK_PX, "borderpad": 1, "yanchor": "middle"},
            "xanchor": "left" if right > 1 else "right" if right < -1 else "center",
        }
