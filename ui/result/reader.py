"""The bar above the lanes: what the text is coloured by, what another θ would change, and the replay on one clock.

It works in the browser alone, on the rows that the lanes of its scope hold there; only "Run with this θ" asks the server.
"""

from __future__ import annotations

import gradio as gr

from ui.kit.assets import asset
from ui.result.token_view import row_props

SCRIPTS = ("format", "lane/rows", "reader/parts", "reader/view", "reader/replay")


def reader_script() -> str:
    """The script of the bar: one function body, in parts."""
    return "\n".join(asset(f"{name}.js") for name in SCRIPTS)


def reader_component(*, scope: str, runs: bool = True) -> gr.HTML:
    """The bar for the lanes of ``scope``. Its event ``select`` carries ``theta``, the θ to run with; not ``runs``: no such button."""
    return gr.HTML(
        value="",
        html_template=asset("reader.html"),
        js_on_load=reader_script(),
        apply_default_css=False,
        elem_id=f"{scope}-reader",
        elem_classes=["mars-reader-block"],
        scope=scope,
        runs=runs,
        **row_props(),
    )
