"""Pieces of an SVG chart: scales, marks, texts, the legend. Every text is escaped. Knows no report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

from evaluation.format import displayable

PANEL, HEIGHT, LEFT, RIGHT, TOP, FOOT = 440, 300, 58, 14, 30, 46  # pixels
KEY, COLUMNS = 20, 4  # height of a row of the legend, and how many stand in one
GREY, GRID = "#7A7F88", "#7A7F8833"
_CORNERS = {
    "square": ((-4, -4), (4, -4), (4, 4), (-4, 4)),
    "diamond": ((0, -5.5), (5.5, 0), (0, 5.5), (-5.5, 0)),
    "triangle": ((0, -5), (5, 4), (-5, 4)),
}


@dataclass(frozen=True, slots=True)
class Scale:
    """Values from ``low`` to ``high`` on pixels from ``start`` to ``end``."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


@dataclass(frozen=True, slots=True)
class Look:
    """``shape``: circle, square, diamond or triangle."""

    colour: str
    shape: str
    hollow: bool


class Key(NamedTuple):
    """An entry of the legend."""

    look: Look
    text: str


def mark(look: Look, x: float, y: float, title: str = "") -> str:
    """``title`` is shown by a browser that points at it."""
    style = f'stroke="{look.colour}" stroke-width="1.6" fill="{look.colour}"' + (
        ' fill-opacity="0"' if look.hollow else ""
    )
    inside = f"<title>{_escaped(title)}</title>" if title else ""
    if look.shape not in _CORNERS:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" {style}>{inside}</circle>'
    corners = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in _CORNERS[look.shape])
    return f'<polygon points="{corners}" {style}>{inside}</polygon>'


def label(x: float, y: float, text: str, anchor: str = "middle", *, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{weight}>{_escaped(text)}</text>'


def document(title: str, parts: Sequence[str], keys: Sequence[Key]) -> str:
    """The whole SVG, two panels wide, its legend under it."""
    columns = COLUMNS if max((len(key.text) for key in keys), default=0) < 24 else COLUMNS // 2
    legend = []
    for number, key in enumerate(keys):
        x, y = LEFT + 2 * PANEL / columns * (number % columns), HEIGHT + 14 + KEY * (number // columns)
        legend += [mark(key.look, x, y), label(x + 12, y + 4, key.text, "start")]
    height = HEIGHT + 14 + KEY * math.ceil(len(keys) / columns)
    size = f'width="{2 * PANEL}" height="{height}" viewBox="0 0 {2 * PANEL} {height}"'
    body = f'<g font-family="sans-serif" font-size="11.5" fill="{GREY}">{"".join((*parts, *legend))}</g>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{_escaped(title)}">{body}</svg>\n'


def room(values: Sequence[float], share: float) -> tuple[float, float]:
    """The range of the values with some room at both ends."""
    low, high = min(values), max(values)
    more = share * (high - low) or 0.05 * abs(high) or 0.5
    return low - more, high + more


def ticks(low: float, high: float) -> list[float]:
    """About five round values within the range."""
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(size * power for size in (1, 2, 2.5, 5, 10) if size * power >= rough * 0.999)
    return [round(step * number, 12) for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _escaped(text: str) -> str:
    """XML takes no controls, escaped or not."""
    return escape(displayable(text))
