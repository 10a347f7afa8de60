"""A figure on the page: the component that draws it, its value as a string, and the file of Plotly
on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gradio as gr
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import FileResponse

from display.plot import THEMED, Plot
from storage.export import csv_text
from ui.kit.assets import asset, to_json, with_constants

FOLDER = "assets/figure"
# plotly.js-cartesian-dist-min of npm
LIBRARY = Path(__file__).parents[1] / FOLDER / "plotly-cartesian-3.7.0.min.js.gz"
SOURCE = f"assets/{LIBRARY.stem}"  # relative, so that it is found wherever the page is mounted
FOREVER = "public, max-age=31536000, immutable"  # its name has its version


def plotly_file(_request: Request) -> FileResponse:
    """The part of plotly.js that our figures need, a third of all, to be cached by the
    browser."""
    headers = {"Content-Encoding": "gzip", "Cache-Control": FOREVER}
    return FileResponse(LIBRARY, media_type="text/javascript", headers=headers)


def plotly_script() -> str:
    """``library()``: the promise of Plotly, for scripts that need it."""
    return f"const PLOTLY = {to_json(SOURCE)};\n{asset('plotly.js', FOLDER)}"


def figure_component(
    *,
    scope: str,
    name: str,
    label: str,
    empty: str = "There is nothing to draw.",
    wide: bool = False,
) -> gr.HTML:
    """An empty figure; its value is ``figure_json``. ``name`` is unique in its ``scope`` and names
    downloads; ``label`` says what it shows; ``empty`` is written where there is none; a ``wide``
    one scrolls in a narrow window. All strings are trusted."""
    code = f"{plotly_script()}\n{asset('figure.js', FOLDER)}"
    return gr.HTML(
        value=figure_json(None),
        html_template=asset("figure.html", FOLDER),
        js_on_load=with_constants(
            code, scope=scope, name=name, label=label, empty=empty, themed=dict(THEMED)
        ),
        apply_default_css=False,
        elem_id=f"{scope}-{name}",
        elem_classes=["mars-figure-block", *(["mars-wide"] if wide else [])],
    )


def figure_json(plot: Plot | None) -> str:
    """ASCII JSON without ``<``; figures have no value for nan and infinities, their CSV has."""
    if plot is None:
        return "null"
    table = csv_text([plot.data.heads, *plot.data.rows])
    content = {"figure": plot.figure.to_plotly_json(), "csv": table, "title": plot.title}
    try:
        return to_json(content)
    except (TypeError, ValueError):  # arrays, and numbers that JSON has not
        plain = TypeAdapter(Any).dump_json(content, fallback=lambda array: array.tolist())
        return to_json(json.loads(plain))
