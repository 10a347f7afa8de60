"""The charts of a study on the page: speed-up and recovery over the varied parameter, and one against the other. No gradio, no store.

The same values, colours and shapes as in the report's own SVG.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from evaluation.format import displayable, ratio
from evaluation.report.document.cells import between, percent
from evaluation.report.document.chart import Chart, Point, Series
from evaluation.report.document.drawing import COLOURS, SHAPES, Key, keys
from evaluation.report.values import Interval
from ui.figures.plot import Data, Plot, axis, drawn
from ui.kit.palette import NEUTRAL

SYMBOLS = ("circle", "square", "diamond", "triangle-up")  # by drafter; open from the second temperature on
HEIGHT = 400
DODGE = 0.02  # of the width of the parameter's range, between series
HEADS = (
    "group", "rule", "series", "parameter", "value", "speedup", "speedup_low", "speedup_high", "recovery", "recovery_low", "recovery_high",
)  # fmt: skip


def parameter_plot(chart: Chart) -> Plot | None:
    """Two panels over the varied parameter, strict at the right of each; None where nothing varies."""
    varied = chart.varied
    if not varied:
        return None
    values = sorted({point.x for series in varied for point in series.points})
    strict = values[-1] + 0.35 * (values[-1] - values[0])
    step = DODGE * (values[-1] - values[0])
    traces: list[dict[str, Any]] = []
    for number, series in enumerate(varied):
        shift = step * (number - (len(varied) - 1) / 2)
        for place, read in enumerate((_speedup, _recovery)):
            traces += _line(series, number, place, read, shift, strict + shift)
    across = {
        "tickvals": [*values, strict],
        "ticktext": [*(f"{value:g}" for value in values), "strict"],
        "zeroline": False,
    }
    title = _text(varied[0].parameter)
    figure = drawn(
        traces, height=HEIGHT, hovermode="closest", shapes=[_margin(chart.margin, "y2", "x2 domain", across=False)],
        xaxis=axis(title, domain=[0, 0.46], **across), xaxis2=axis(title, domain=[0.54, 1], anchor="y2", **across),
        yaxis=axis(chart.speed, ticksuffix="×", tickformat=".3~g", zeroline=False),
        yaxis2=axis("Recovery", tickformat=".0%", anchor="x2", zeroline=False),
    )  # fmt: skip
    return Plot(
        figure,
        _numbers(chart, varied, strict=True),
        f"{chart.speed} and recovery over {varied[0].parameter}. {chart.title}.",
    )


def tradeoff_plot(chart: Chart) -> Plot | None:
    """Speed-up against recovery, one mark a lane, with both intervals."""
    rules = list(dict.fromkeys(series.rule for series in chart.series))
    traces = [*(_cloud(series, rules.index(series.rule)) for series in chart.series), *map(_key, keys(chart, rules))]
    figure = drawn(
        traces, height=HEIGHT + 40, hovermode="closest", shapes=[_margin(chart.margin, "x", "y domain", across=True)],
        xaxis=axis("Recovery", tickformat=".0%", zeroline=False),
        yaxis=axis(chart.speed, ticksuffix="×", tickformat=".3~g", zeroline=False),
    )  # fmt: skip
    return Plot(figure, _numbers(chart, chart.series, strict=False), f"{chart.speed} against recovery. {chart.title}.")


def _text(words: str) -> str:
    """As text: Plotly reads a subset of HTML, and ``%{`` in its templates."""
    return escape(displayable(words)).replace("%{", "% {")


def _speedup(point: Point) -> Interval:
    return point.speedup


def _recovery(point: Point) -> Interval:
    return point.recovery


def _line(
    series: Series, colour: int, place: int, read: Callable[[Point], Interval], shift: float, strict: float
) -> list[dict[str, Any]]:
    """The points of a rule joined, and strict apart from them."""
    axes = {"xaxis": "x2", "yaxis": "y2"} if place else {}
    common = axes | {"name": _text(series.name), "legendgroup": series.name, "hovertemplate": _HOVER}
    xs = [point.x + shift for point in series.points]
    found = [
        _marks(series, colour, xs, series.points, read) | common | {"mode": "lines+markers", "showlegend": not place}
    ]
    if series.strict:
        alone = _marks(series, colour, [strict], [series.strict], read)
        found.append(alone | common | {"mode": "markers", "showlegend": False})
    return found


def _marks(
    series: Series, colour: int, xs: Sequence[float], points: Sequence[Point], read: Callable[[Point], Interval]
) -> dict[str, Any]:
    return {
        "type": "scatter", "x": list(xs), "y": [read(point).value for point in points], "customdata": [_hover(point) for point in points],
        "marker": _marker(series, colour), "line": {"color": _colour(colour), "width": 1.2},
        "error_y": _bars([read(point) for point in points], _colour(colour)),
    }  # fmt: skip


def _cloud(series: Series, colour: int) -> dict[str, Any]:
    points = series.points
    return {
        "type": "scatter", "mode": "markers", "name": _text(series.name), "hovertemplate": _HOVER, "showlegend": False,
        "x": [point.recovery.value for point in points], "y": [point.speedup.value for point in points],
        "customdata": [_hover(point) for point in points], "marker": _marker(series, colour),
        "error_x": _bars([point.recovery for point in points], _faint(colour)),
        "error_y": _bars([point.speedup for point in points], _faint(colour)),
    }  # fmt: skip


def _key(key: Key) -> dict[str, Any]:
    """An entry of the legend, of no point."""
    look = key.look
    symbol = SYMBOLS[SHAPES.index(look.shape)] + ("-open" if look.hollow else "")
    marker = {"symbol": symbol, "size": 9, "color": look.colour, "line": {"width": 1.5 if look.hollow else 0}}
    return {
        "type": "scatter",
        "mode": "markers",
        "name": _text(key.text),
        "x": [None],
        "y": [None],
        "marker": marker,
        "hoverinfo": "skip",
    }


_HOVER = (
    "<b>%{customdata[0]}</b><br>speed-up %{customdata[1]}<br>recovery %{customdata[2]}<extra>%{fullData.name}</extra>"
)


def _hover(point: Point) -> tuple[str, ...]:
    speed = f"{ratio(point.speedup.value)} {between(point.speedup, ratio)}"
    return _text(point.label), speed, f"{percent(point.recovery.value)} {between(point.recovery, percent)}"


def _marker(series: Series, colour: int) -> dict[str, Any]:
    symbol = SYMBOLS[series.drafter % len(SYMBOLS)] + ("-open" if series.temperature else "")
    return {"symbol": symbol, "size": 9, "color": _colour(colour), "line": {"width": 1.5 if series.temperature else 0}}


def _bars(intervals: Sequence[Interval], colour: str) -> dict[str, Any]:
    """Distances to the ends; none where there is no interval."""
    above = [_distance(interval.high, interval.value) for interval in intervals]
    below = [_distance(interval.value, interval.low) for interval in intervals]
    return {
        "type": "data",
        "symmetric": False,
        "array": above,
        "arrayminus": below,
        "color": colour,
        "thickness": 1.5,
        "width": 0,
    }


def _distance(high: float, low: float) -> float:
    return 0.0 if math.isnan(high - low) else high - low


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def _faint(number: int) -> str:
    colour = _colour(number)
    return f"rgba({', '.join(str(int(colour[at : at + 2], 16)) for at in (1, 3, 5))}, 0.5)"


def _margin(margin: float, on: str, along: str, *, across: bool) -> dict[str, Any]:
    """The line of the margin: upright where recovery goes across."""
    line = {"type": "line", "line": {"color": NEUTRAL, "width": 1, "dash": "dash"}}
    if across:
        return line | {"xref": on, "x0": margin, "x1": margin, "yref": along, "y0": 0, "y1": 1}
    return line | {"yref": on, "y0": margin, "y1": margin, "xref": along, "x0": 0, "x1": 1}


def _numbers(chart: Chart, every: Sequence[Series], *, strict: bool) -> Data:
    """``strict``: whether each series has strict beside it."""
    rows = tuple(
        (chart.group, point.label, series.name, series.parameter, point.x, *point.speedup, *point.recovery)
        for series in every
        for point in (*series.points, *([series.strict] if series.strict and strict else []))
    )
    return Data(HEADS, rows)
