"""The About tab: the method in one page, the terms, how to read the colours, what the bundled pair can do."""

from __future__ import annotations

import gradio as gr

from mars_core.rules import RULES
from mars_core.types import Outcome
from ui.labels import rule_title
from ui.palette import OUTCOME_STYLES
from ui.token_view import asset
from ui.workplace import Workplace

SHAPES = {
    Outcome.ACCEPTED: "no mark",
    Outcome.RELAXED: "orange tint and thick line",
    Outcome.REJECTED: "pink, struck through, in the details of a token",
    Outcome.RECOVERED: "blue dots",
    Outcome.BONUS: "grey dashes",
}


def about_text(bundled: str) -> str:
    """Markdown; every word of it ours."""
    rules = "\n".join(
        f"| **{rule_title(r.name)}** | {r.summary}<br>*{r.formula}*<br>{r.source} |" for r in RULES.values()
    )
    marks = "\n".join(
        f'| <span class="tok w {outcome}">{outcome}</span> | {SHAPES[outcome]}: {style.meaning} |'
        for outcome, style in OUTCOME_STYLES.items()
    )
    table = f"| mark | meaning |\n|---|---|\n{marks}"
    return asset("about.md").replace("{rules}", rules).replace("{marks}", table).replace("{bundled}", bundled)


def build_about_tab(workplace: Workplace) -> None:
    with gr.Column(elem_classes=["mars-panel"]):
        gr.Markdown(about_text(workplace.catalog[0].note), elem_classes=["mars-about"], container=False)
