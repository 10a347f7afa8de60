"""A growth curve as SVG: two panels with logarithmic axes, a dot a point, a bar from quartile to quartile."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from xml.sax.saxutils import escape, quoteattr

from bench.growth.curves import Curve, Series, fitted

PANEL, HEIGHT, LEFT, TOP, BASE, INSIDE = 390, 250, 48, 34, 212, 320  # pixels; INSIDE: width of the plot in its panel
GREY, GRID, COLOURS = "#7A7F88", "#7A7F8840", ("#D55E00", "#3D8FD1", "#009E73")


def svg(curve: Curve) -> str:
    """Times, and peak memory."""
    *times, memory = fitted(curve)
    panels = _panel(curve, times, LEFT) + _panel(curve, [memory], LEFT + PANEL)
    size = f'width="{2 * PANEL}" height="{HEIGHT}" viewBox="0 0 {2 * PANEL} {HEIGHT}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label={quoteattr(curve.title)}>'
        f'<g font-family="sans-serif" font-size="11" fill="{GREY}">{panels}</g></svg>\n'
    )


def _axis(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    """A logarithmic axis: values from ``low`` to ``high`` to pixels from ``start`` to ``end``."""
    width = math.log(high / low) or 1
    return lambda value: start + math.log(max(value, low) / low) / width * (end - start)


def _panel(curve: Curve, lines: Sequence[Series], left: int) -> str:
    positive = [edge for one in lines for v in one.values for edge in (v.low, v.high) if edge > 0] or [1.0]
    floor = 10 ** (math.floor(2 * math.log10(min(positive)) - 1e-9) / 2)  # a power of ten, or half of one
    ceiling = 10 ** (math.ceil(2 * math.log10(max(positive)) + 1e-9) / 2)
    x, y = _axis(curve.xs[0], curve.xs[-1], left + 12, left + INSIDE - 12), _axis(floor, ceiling, BASE, TOP)
    parts = [f'<path d="M{left} {BASE}h{INSIDE}M{left} {BASE}V{TOP}" stroke="{GREY}" fill="none"/>']
    parts += [_label(x(value), BASE + 14, _short(value)) for value in curve.xs]
    parts.append(_label(left + INSIDE / 2, BASE + 30, curve.axis))
    for tick in _ticks(floor, ceiling):
        parts.append(f'<path d="M{left} {y(tick):.1f}h{INSIDE}" stroke="{GRID}"/>')
        parts.append(_label(left - 5, y(tick) + 4, _short(tick), "end"))
    for at, (one, colour) in enumerate(zip(lines, COLOURS, strict=False)):
        parts.append(_label(left + 4 + 100 * at, TOP - 14, one.name, "start", colour))
        places = [(x(value), y(v.median), y(v.low), y(v.high)) for value, v in zip(curve.xs, one.values, strict=True)]
        path = " ".join(f"{across:.1f},{middle:.1f}" for across, middle, *_ in places)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}"/>')
        for across, middle, low, high in places:
            parts.append(f'<path d="M{across:.1f} {low:.1f}V{high:.1f}" stroke="{colour}" stroke-width="3"/>')
            parts.append(f'<circle cx="{across:.1f}" cy="{middle:.1f}" r="3" fill="{colour}"/>')
    return "".join(parts)


def _ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times the powers of ten within the range."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
    return [tick for tick in ticks if low * 0.999 <= tick <= high * 1.001]


def _label(x: float, y: float, text: str, anchor: str = "middle", colour: str = GREY) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'


def _short(value: float) -> str:
    """4096 as 4k; the unit of contexts is 1024, of other counts 1000."""
    return f"{value / (1024 if value % 1024 == 0 else 1000):g}k" if value >= 1000 else f"{value:g}"
