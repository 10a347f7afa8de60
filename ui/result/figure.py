"""A figure on the page: the component that draws it, and the file of Plotly on this machine."""

from __future__ import annotations

import gradio as gr
from starlette.requests import Request
from starlette.responses import FileResponse

from display.figure import LIBRARY, figure_json
from display.sources import source, to_json
from ui.kit.assets import with_constants

SOURCE = f"assets/{LIBRARY.stem}"  # relative, so that it is found wherever the page is mounted
FOREVER = "public, max-age=31536000, immutable"  # its name has its version


def plotly_file(_request: Request) -> FileResponse:
    """Send Plotly, to be cached by the browser."""
    headers = {"Content-Encoding": "gzip", "Cache-Control": FOREVER}
    return FileResponse(LIBRARY, media_type="text/javascript", headers=headers)


def plotly_script() -> str:
    """Return the script of ``marsLibrary()``, the promise of Plotly."""
    return f"const PLOTLY = {to_json(SOURCE)};\n{source('assets/plotly.js')}"


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
    return gr.HTML(
        value=figure_json(None),
        html_template=source("templates/figure.html"),
        js_on_load=with_constants(
            "marsFigure(element, props, watch, CONSTANTS);",
            scope=scope,
            name=name,
            label=label,
            empty=empty,
        ),
        apply_default_css=False,
        elem_id=f"{scope}-{name}",
        elem_classes=["mars-figure-block", *(["mars-wide"] if wide else [])],
    )
