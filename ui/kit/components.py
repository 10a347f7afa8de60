"""The small components of the page that show text from outside: the line above the lanes, the table.

Each value is one ASCII JSON string that a script of ``ui/assets`` writes with textContent; no template contains a value.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import gradio as gr

from ui.kit.assets import asset, to_json
from ui.kit.format import displayable
from ui.kit.values import Check, Part, Sentence, Table


@dataclass(frozen=True, slots=True)
class Strip:
    """The line above the lanes. ``state``: idle, running, done, cancelled or failed; ``side`` a short text on the right."""

    parts: Sentence
    state: str = "idle"
    side: str = ""
    progress: float = 0.0  # 0 to 1

    def json(self) -> str:
        return to_json(asdict(self))


def words(text: str, state: str = "idle", *, side: str = "", progress: float = 0.0) -> Strip:
    """A strip of one plain sentence, whatever it contains."""
    return Strip((Part(displayable(text)),), state, side, progress)


def strip_component(strip: Strip, *, scope: str) -> gr.HTML:
    return gr.HTML(
        value=strip.json(),
        html_template=asset("strip.html"),
        js_on_load=asset("strip.js"),
        apply_default_css=False,
        elem_id=f"{scope}-strip",
        elem_classes=["mars-strip-block"],
        scope=scope,
    )


EMPTY_TABLE = Table(("",), ())


def table_json(table: Table) -> str:
    return to_json(asdict(table))


def table_component(*, scope: str) -> gr.HTML:
    return gr.HTML(
        value=table_json(EMPTY_TABLE),
        html_template=asset("table.html"),
        js_on_load=asset("table.js"),
        apply_default_css=False,
        elem_id=f"{scope}-table",
    )


def check_json(check: Check) -> str:
    return to_json(asdict(check))


def check_component() -> gr.HTML:
    """The verdict of the self-check."""
    return gr.HTML(
        value=check_json(Check()),
        html_template='<p class="mars-check" role="status"></p>',
        js_on_load=asset("check.js"),
        apply_default_css=False,
    )


def text_component(name: str, text: str = "") -> gr.HTML:
    """A short text, written as text; ``name`` is its CSS class."""
    return gr.HTML(
        value=text,
        html_template=f'<p class="{name}"></p>',
        js_on_load="const update = () => { element.querySelector('p').textContent = props.value; }; watch('value', update); update();",
        apply_default_css=False,
    )
