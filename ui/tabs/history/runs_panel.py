"""The panel of compared runs: its component, and what its value says."""

from __future__ import annotations

from dataclasses import asdict

import gradio as gr

from ui.kit.assets import asset, to_json
from ui.tabs.history.runs import RunTable, amount_words


def runs_json(table: RunTable, message: str = "", share: str = "") -> str:
    """``message``: one sentence on what was not done; empty where all went well. ``share``: token of the link they are read through."""
    words = amount_words(len(table.columns)) if table.columns else ""
    return to_json(asdict(table) | {"words": words, "message": message, "share": share})


def runs_component() -> gr.HTML:
    return gr.HTML(
        value=runs_json(RunTable()),
        html_template=asset("runs.html"),
        js_on_load=asset("runs.js"),
        apply_default_css=False,
        elem_id="history-runs",
    )
