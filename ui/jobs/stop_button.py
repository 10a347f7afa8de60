"""The button that stops the job of a tab."""

from __future__ import annotations

from typing import Any

import gradio as gr

from ui.jobs.services import Services
from ui.kit.events import PRIVATE, Updates


class StopButton:
    """Visible while a job of the tab ``scope`` runs. It stops that one, not the same visitor's
    comparison."""

    def __init__(self, services: Services, scope: str, **more: Any) -> None:
        self._services, self._scope = services, scope
        self.button = gr.Button(
            "Stop", variant="stop", visible=False, elem_id=f"{scope}-stop", **more
        )

    def wire(self) -> None:
        self.button.click(self.request_stop, None, self.button, **PRIVATE)

    def visitor(self, request: gr.Request) -> str:
        """Return who may stop the job (``services.stops``)."""
        return f"{self._services.for_visitor(request).key}/{self._scope}"

    def begin(self, request: gr.Request) -> Updates:
        self._services.stops.begin(self.visitor(request))
        return {self.button: gr.update(visible=True, interactive=True, value="Stop")}

    def request_stop(self, request: gr.Request) -> Any:
        self._services.stops.request(self.visitor(request))
        return gr.update(value="Stopping …", interactive=False)

    def end(self) -> Updates:
        return {self.button: gr.update(visible=False)}
