"""A figure on its way into a page or a file: its value, and the scripts that draw it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from display.plot import THEMED, Plot
from display.sources import source, to_json
from storage.export import csv_text

# plotly.js-cartesian-dist-min of npm: the part that our figures need, a third of all
LIBRARY = Path(__file__).parent / "assets" / "plotly-cartesian-3.7.0.min.js.gz"


def library() -> str:
    """Return the script of Plotly."""
    return gzip.decompress(LIBRARY.read_bytes()).decode()


def common_scripts() -> str:
    """Return what the page and files run once: what several scripts do, and ``marsFigure``, which
    draws a figure."""
    themed = to_json(dict(THEMED))
    return f"{source('assets/browser.js')}\nconst THEMED = {themed};\n{source('assets/figure.js')}"


def figure_json(plot: Plot | None) -> str:
    """Write the value of a figure as ASCII JSON without ``<``; figures have no value for nan and
    infinities, their CSV has."""
    if plot is None:
        return "null"
    table = csv_text([plot.data.heads, *plot.data.rows])
    content = {"figure": plot.figure.to_plotly_json(), "csv": table, "title": plot.title}
    plain = TypeAdapter(Any).dump_json(content, fallback=lambda array: array.tolist())
    return to_json(json.loads(plain))


def file_script(functions: Sequence[str]) -> str:
    """Return the script of a file that draws itself. ``functions``: scripts of its components."""
    drawing = ",\n".join(
        f"(element, props, trigger, watch) => {{\n{each}\n}}" for each in functions
    )
    return f"{common_scripts()}\nconst SCRIPTS = [{drawing}];\n{source('assets/report.js')}"
