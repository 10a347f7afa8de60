"""The About tab: the method in one page, the terms, how to read the colours, what the pairs can do,
how to cite."""

from __future__ import annotations

from collections.abc import Sequence

import gradio as gr

from mars_core import __version__
from mars_core.drafting import DRAFTERS
from mars_core.models import PairSpec
from mars_core.rules import RULES
from mars_core.types import Outcome
from ui.jobs.services import Services
from ui.kit.assets import asset
from ui.kit.documents import titles
from ui.kit.glossary import TERMS
from ui.kit.labels import drafter_title, rule_title
from ui.kit.palette import OUTCOME_STYLES

SHAPES = {
    Outcome.ACCEPTED: "no mark",
    Outcome.RELAXED: "orange tint and thick line",
    Outcome.REJECTED: "pink, struck through, in the details of a token",
    Outcome.RECOVERED: "blue dots",
    Outcome.BONUS: "grey dashes",
}


def about_text(catalog: Sequence[PairSpec]) -> str:
    """Markdown; every word of it ours."""
    rules = "\n".join(
        f"| **{rule_title(r.name)}** | {r.summary}<br>*{r.formula}*<br>{r.source} |"
        for r in RULES.values()
    )
    marks = "\n".join(
        f'| <span class="tok w {outcome}">{outcome}</span> | {SHAPES[outcome]}: {style.meaning} |'
        for outcome, style in OUTCOME_STYLES.items()
    )
    terms = "\n".join(
        f"| **{term.symbol}** | *{term.title}.* {term.text} |" for term in TERMS.values()
    )
    drafters = "\n".join(
        f"| **{drafter_title(name)}** | {each.summary}<br>{each.source} |"
        for name, each in DRAFTERS.items()
    )
    pairs = "\n".join(f"* **{spec.title}**: {spec.note}" for spec in catalog)
    table = f"| mark | meaning |\n|---|---|\n{marks}"
    listed = " · ".join(f"[{title}](docs/{name})" for name, title in titles().items())
    return asset("about.md").format(
        documents=listed and f"## Documents\n\n{listed}\n",
        rules=rules,
        drafters=drafters,
        marks=table,
        terms=terms,
        pairs=pairs,
        version=__version__,
    )


class AboutTab:
    def __init__(self, services: Services) -> None:
        with gr.Column(elem_classes=["mars-panel"]):
            gr.Markdown(about_text(services.catalog), elem_classes=["mars-about"], container=False)
