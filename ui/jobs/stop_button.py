"""The button that stops the job of a tab."""

from __future__ import annotations

from typing import Any

import gradio as gr

from ui.jobs.services import Services
from ui.kit.events import PRIVATE, Updates


class StopButton:
    """Visible while a job of these services' part of the page runs, which it stops."""

    def __init__(self, services: Services, *, elem_id: str, **more: Any) -> None:
        self._services = services
        self.button = gr.Button("Stop", variant="stop", elem_id=elem_id, **more)

    def wire(self) -> None:
        self.button.click(self.request_stop, None, self.button, **PRIVATE)

    def begin(self, request: gr.Request) -> Updates:
        self._services.for_visitor(request).stop.begin()
        return {self.button: gr.update(visible=True, interactive=True, value="Stop")}

    def request_stop(self, request: gr.Request) -> Any:
        self._services.for_visitor(request).stop.request()
        return gr.update(value="Stopping …", interactive=False)

    def end(self) -> Updates:
        return {self.button: gr.update(visible=False)}
