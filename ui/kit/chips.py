"""Example prompts as a row of buttons; a click reports its index."""

from __future__ import annotations

from collections.abc import Sequence

import gradio as gr

from ui.kit.assets import asset, to_json
from ui.kit.format import shorten


def chips_json(prompts: Sequence[str]) -> str:
    return to_json([[shorten(prompt, 64), prompt] for prompt in prompts])


def chips_component(prompts: Sequence[str], elem_id: str) -> gr.HTML:
    return gr.HTML(
        value=chips_json(prompts),
        html_template='<div class="mars-chips" role="group" aria-label="Example prompts"></div>',
        js_on_load=asset("chips.js"),
        apply_default_css=False,
        elem_id=elem_id,
    )
