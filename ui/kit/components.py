"""The small components of the page: the message strip above the lanes, tables, verdicts, short
texts, example prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from display.format import displayable, shorten
from mars_core.types import RunConfig
from ui.kit.panel import panel_component, render, stamped, static_component
from ui.kit.values import Sentence

RUN_FILES = (
    "runs.csv",
    "tokens.csv",
    "nodes.csv",
    "runs.parquet",
    "tokens.parquet",
    "nodes.parquet",
)
OTHER_FILES = ("votes.csv", "votes.parquet", "counterfactuals.csv", "counterfactuals.parquet")
REPORT = "report.html"
WARMING = "Warming up: a few tokens that do not count …"


@dataclass(frozen=True, slots=True)
class Strip:
    """The message above the lanes. ``state``: idle, running, done, cancelled or failed; ``side`` a
    short text on the right."""

    parts: Sentence
    state: str = "idle"
    side: str = ""
    progress: float = 0.0  # 0 to 1
    numbers: tuple[Any, ...] = ()  # ui.result.headline.Headline
    untimed: bool = False  # a ratio of times is missing that more rounds would give
    configs: tuple[RunConfig, ...] = ()  # of the runs, where all ended
    safety: tuple[Any, ...] = ()  # ui.tabs.compare.safety.Safety

    def html(self) -> str:
        html = render("kit/templates/strip.html.jinja", strip=self)
        return stamped(html) if self.state == "failed" else html  # also where it fails again


def message_strip(
    text: str, state: str = "idle", *, side: str = "", progress: float = 0.0
) -> Strip:
    """Build a strip of one plain sentence, whatever it contains."""
    return Strip((displayable(text),), state, side, progress)


def strip_component(strip: Strip, *, scope: str) -> gr.HTML:
    return panel_component(
        strip.html(), elem_id=f"{scope}-strip", elem_classes=["mars-strip-block"], scope=scope
    )


def chips_html(prompts: Sequence[str]) -> str:
    return render(
        "kit/templates/chips.html.jinja",
        prompts=[(shorten(prompt, 64), prompt) for prompt in prompts],
    )


def chips_component(prompts: Sequence[str], elem_id: str = "chips") -> gr.HTML:
    """Example prompts as a row of buttons; a click selects ``{"index": …}``."""
    return panel_component(chips_html(prompts), elem_id=elem_id, latest=True)


def text_panel(name: str, text: str = "") -> gr.HTML:
    """Build a short text. Its value is plain text, which is written as text; ``name`` is its CSS
    class."""
    return gr.HTML(
        value=text,
        html_template=f'<p class="{name}"></p>',
        js_on_load="const update = () => { element.querySelector('p').textContent = props.value; }; watch('value', update); update();",
        apply_default_css=False,
    )


DownloadGroup = tuple[
    str, tuple[str, ...], str
]  # a title, file names, and the query that all its links carry


def downloads_html(*groups: DownloadGroup) -> str:
    return render("kit/templates/downloads.html.jinja", groups=groups)


def downloads_component(name: str) -> gr.HTML:
    """``name`` is the id of the element."""
    return static_component(downloads_html(), elem_id=name)
