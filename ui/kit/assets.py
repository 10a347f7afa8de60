"""Files of ``ui/assets``, and values on their way into the page."""

from __future__ import annotations

import json
import re
from collections import Counter
from importlib import resources

import gradio as gr


def asset(name: str, folder: str = "assets") -> str:
    return resources.files("ui").joinpath(folder, name).read_text(encoding="utf-8")


def script(*names: str) -> str:
    return "\n".join(map(asset, names))


def to_json(value: object) -> str:
    """ASCII JSON without ``<``: safe in transport and in any page, whatever text it carries."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).replace(
        "<", "\\u003c"
    )


# what gradio gives to the script of a component
PROVIDED = "element, trigger, props, server, upload, watch"
_SCRIPT = re.compile(r"(?:const CONSTANTS = (?P<constants>[^\n]*);\n)?(?P<code>.*)", re.DOTALL)


def with_constants(code: str, **constants: object) -> str:
    """``code`` with the constant CONSTANTS: texts of ours, in the script itself, because a component
    that starts late, in a hidden part of the page, has its properties only later."""
    return f"const CONSTANTS = {to_json(constants)};\n{code}"


def share_scripts(page: gr.Blocks) -> str:
    """Moves each script that several components run, but for their CONSTANTS, to one function, which
    they call instead: for the page's head, once."""
    drawn = [block for block in page.blocks.values() if isinstance(block, gr.HTML)]
    parts = [(block, _SCRIPT.fullmatch(block.js_on_load)) for block in drawn if block.js_on_load]
    split = [(block, match["code"], match["constants"]) for block, match in parts if match]
    counted = Counter(code for _, code, _ in split)
    shared = {
        code: at for at, code in enumerate(code for code, uses in counted.items() if uses > 1)
    }
    for block, code, constants in split:
        if code in shared:
            block.js_on_load = (
                f"marsScripts[{shared[code]}]({PROVIDED}{f', {constants}' if constants else ''});"
            )
    functions = ",\n".join(f"({PROVIDED}, CONSTANTS) => {{\n{code}\n}}" for code in shared)
    return f"<script>{asset('browser.js')}\nwindow.marsScripts = [{functions}];</script>"
