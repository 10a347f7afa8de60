"""Files of ``ui/assets``, and values on their way into the page."""

from __future__ import annotations

import json
from collections import Counter
from importlib import resources

import gradio as gr


def asset(name: str, folder: str = "assets") -> str:
    return resources.files("ui").joinpath(folder, name).read_text(encoding="utf-8")


def script(*names: str) -> str:
    return "\n".join(map(asset, names))


def to_json(value: object) -> str:
    """ASCII JSON without ``<``: safe in transport and in any page, whatever text it carries."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


GIVEN = "element, trigger, props, server, upload, watch"  # what gradio gives to the script of a component


def share_scripts(page: gr.Blocks) -> str:
    """Moves each script that several components run to one function, which they call instead: for the page's head, once."""
    drawn = [block for block in page.blocks.values() if isinstance(block, gr.HTML) and block.js_on_load]
    counted = Counter(block.js_on_load for block in drawn)
    shared = {code: at for at, code in enumerate(code for code, uses in counted.items() if uses > 1)}
    for block in drawn:
        if block.js_on_load in shared:
            block.js_on_load = f"marsScripts[{shared[block.js_on_load]}]({GIVEN});"
    functions = ",\n".join(f"({GIVEN}) => {{\n{code}\n}}" for code in shared)
    return f"<script>window.marsScripts = [{functions}];</script>"
