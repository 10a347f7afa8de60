"""Files of ``ui/assets``, scripts on their way into the page, and the file of Plotly."""

from __future__ import annotations

import re
from collections import Counter

import gradio as gr
from starlette.requests import Request
from starlette.responses import FileResponse

from display.figure import LIBRARY, common_scripts
from display.sources import source, to_json


def asset(name: str, folder: str = "assets") -> str:
    return source(f"{folder}/{name}", "ui")


def script(*names: str) -> str:
    return "\n".join(map(asset, names))


# what gradio gives to the script of a component
PROVIDED = "element, trigger, props, server, upload, watch"


CONSTANTS = "const CONSTANTS = "  # begins a script that has some, on a line of their own


def with_constants(code: str, **constants: object) -> str:
    """``code`` with trusted strings in the script itself, because a component that starts late, in a
    hidden part of the page, has its properties only later."""
    return f"{CONSTANTS}{to_json(constants)};\n{code}"


def share_scripts(page: gr.Blocks) -> str:
    """Moves each script that several components run, but for their CONSTANTS, to one function, which
    they call instead: for the page's head, once."""
    drawn = [
        (block, re.fullmatch(f"(?:{CONSTANTS}(.*);\n)?((?s:.*))", block.js_on_load))
        for block in page.blocks.values()
        if isinstance(block, gr.HTML) and block.js_on_load
    ]
    uses = Counter(match[2] for _, match in drawn if match)
    shared = [code for code in uses if uses[code] > 1]
    for block, match in drawn:
        if match and match[2] in shared:
            values = ", ".join(filter(None, (PROVIDED, match[1])))
            block.js_on_load = f"marsScripts[{shared.index(match[2])}]({values});"
    functions = ",\n".join(f"({PROVIDED}, CONSTANTS) => {{\n{code}\n}}" for code in shared)
    return f"<script>{common_scripts()}\nwindow.marsScripts = [{functions}];</script>"


SOURCE = f"assets/{LIBRARY.stem}"  # relative, so that it is found wherever the page is mounted
FOREVER = "public, max-age=31536000, immutable"  # its name has its version


def plotly_file(_request: Request) -> FileResponse:
    """Send Plotly, to be cached by the browser."""
    headers = {"Content-Encoding": "gzip", "Cache-Control": FOREVER}
    return FileResponse(LIBRARY, media_type="text/javascript", headers=headers)


def plotly_script() -> str:
    """Return the script of ``marsLibrary()``, the promise of Plotly."""
    return f"const PLOTLY = {to_json(SOURCE)};\n{source('assets/plotly.js')}"
