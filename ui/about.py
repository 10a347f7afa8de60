"""The About tab: the method in one page, the terms, how to read the colours, what the bundled pair can do."""

from __future__ import annotations

import gradio as gr

from mars_core.rules import RULES
from ui.labels import rule_title
from ui.token_view import asset
from ui.workplace import Workplace


def about_text(bundled: str) -> str:
    """Markdown; every word of it ours."""
    rules = "\n".join(f"| **{rule_title(r.name)}** | {r.summary} | {r.formula} | {r.source} |" for r in RULES.values())
    return asset("about.md").replace("{rules}", rules).replace("{bundled}", bundled)


def build_about_tab(workplace: Workplace) -> None:
    with gr.Column(elem_classes=["mars-panel"]):
        gr.Markdown(about_text(workplace.catalog[0].note), elem_classes=["mars-about"], container=False)
