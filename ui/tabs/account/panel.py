"""The panel "Your data" on top of History: its components and events. What they do is in deeds.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gradio as gr

from ui.kit.assets import asset
from ui.services import Services
from ui.tabs.account.deeds import act, look
from ui.tabs.account.sign_in import sign_in_button
from ui.tabs.account.values import NOBODY

PRIVATE: Mapping[str, Any] = {"api_visibility": "private", "show_progress": "hidden", "queue": False}


def build_mine(place: Services, tab: gr.Tab) -> gr.HTML | None:
    """The panel, read whenever ``tab``, in which it stands, is chosen; None on a private page, which has none."""
    if not place.public:
        return None
    with gr.Column(elem_classes=["mars-panel", "mars-mine-panel"]):
        panel = panel_component()
        if place.sign_in:
            sign_in_button()

    def enter(request: gr.Request) -> str:
        return look(place, request).json()

    def deed(event: gr.EventData, request: gr.Request) -> str:
        return act(place, request, event._data if isinstance(event._data, Mapping) else {}).json()

    tab.select(enter, None, panel, **PRIVATE)
    gr.on([panel.select, panel.delete], deed, None, panel, trigger_mode="multiple", **PRIVATE)
    return panel


def panel_component() -> gr.HTML:
    return gr.HTML(
        value=NOBODY.json(),
        html_template=asset("mine.html"),
        js_on_load=asset("mine.js"),
        apply_default_css=False,
        elem_id="mine",
    )
