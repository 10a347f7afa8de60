"""The token view in another program: one component with everything that it needs, over a trace.

``python -m ui.result`` shows the stored example on a stock Gradio page.
"""

from __future__ import annotations

import gradio as gr
from pydantic import TypeAdapter

from display.palette import css_variables
from mars_core.types import Trace
from ui.kit.assets import asset
from ui.token_view.components import FOLDER, lane_component
from ui.token_view.view import LaneView, ended_view


def read_trace(text: str | bytes) -> Trace:
    """Read a trace from the JSON that ``dataclasses.asdict`` gives of one. Raises ValueError
    (pydantic's) with the first field that is wrong."""
    return TypeAdapter(Trace).validate_json(text)


def token_view(value: Trace | LaneView, *, number: int = 0) -> gr.HTML:
    """Build the component for any Gradio page. ``number`` sets apart several on one page. Its value
    is ``LaneView.json``, and its event ``select`` carries ``lane`` and ``index``, the output
    position of a chosen token. ``push_to_hub`` publishes it with the style sheet as ``head``."""
    view = value if isinstance(value, LaneView) else ended_view(value, f"trace-{number}")
    component = lane_component(view, scope="trace", lane=number)
    component.head = f"<style>{css_variables()}{asset('standalone.css', FOLDER)}{asset('tokens.css', FOLDER)}</style>"
    return component
