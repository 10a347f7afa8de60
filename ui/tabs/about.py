"""The About tab: the method in one page, the terms, how to read the colours, what the pairs can do,
how to cite."""

from __future__ import annotations

from collections.abc import Sequence

import gradio as gr

from display.palette import OUTCOME_STYLES
from mars_core import __version__
from mars_core.drafting import DRAFTERS
from mars_core.models import PairSpec
from mars_core.rules import RULES
from mars_core.types import Outcome
from ui.jobs.services import Services
from ui.kit.glossary import TERMS
from ui.kit.panel import render
from ui.kit.responses import titles

SHAPES = {
    Outcome.ACCEPTED: "no mark",
    Outcome.RELAXED: "orange tint and thick line",
    Outcome.REJECTED: "pink, struck through, in the details of a token",
    Outcome.RECOVERED: "blue dots",
    Outcome.BONUS: "grey dashes",
}


def about_text(catalog: Sequence[PairSpec]) -> str:
    """Markdown; every word of it ours."""
    return render(
        "assets/about.md.jinja",
        terms=TERMS.values(),
        marks=OUTCOME_STYLES,
        shapes=SHAPES,
        rules=RULES.values(),
        drafters=DRAFTERS,
        catalog=catalog,
        documents=titles(),
        version=__version__,
    )


class AboutTab:
    def __init__(self, services: Services) -> None:
        with gr.Column(elem_classes=["mars-panel"]):
            gr.Markdown(about_text(services.catalog), elem_classes=["mars-about"], container=False)
