"""The components of the Quality tab: the form, the list of studies, the report of one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gradio as gr

from ui.jobs.services import Services
from ui.jobs.stop_button import StopButton
from ui.kit.components import (
    downloads_component,
    message_strip,
    strip_component,
    text_panel,
)
from ui.kit.panel import panel_component
from ui.result.view import RunPair
from ui.settings.panel import SettingsPanel
from ui.sharing import share_component
from ui.tabs.study.fields import describe, thresholds
from ui.tabs.study.studies import list_component, study_panel

SCOPE = "quality"
RESULT = "mars-details"
HINT = "Choose a study: its report says whether a rule keeps the answers right, and what it gains."
LEAD = (
    "Every rule runs on the same prompts, seeds and drafters as strict. Several values of one "
    "parameter, or of K, are a sweep: its curves are drawn while it runs."
)
COMMAND = (
    " A large study is started on the command line, where no closed tab ends it: mars eval run "
    "--suite instructions --limit 60 --rules none,strict,mars --theta 0.9,0.97"
)


class QualityLayout:
    """``outputs``: what opening a study changes. ``opened``: the id of the study that is open, and
    the token of the link it is read through; or empty strings."""

    def __init__(self, services: Services) -> None:
        self.services = services = replace(services, scope=SCOPE)
        self.opened = [gr.State(""), gr.State("")]
        self.wanted = gr.State(None)  # values of the form that another tab asks for
        with gr.Accordion(
            "Start a study or a sweep",
            open=False,
            elem_id="study-start",
            elem_classes=["mars-panel"],
        ) as self.form:
            text_panel("mars-page", LEAD + ("" if services.public else COMMAND))
            self.panel = SettingsPanel(services, "study", describe, thresholds=thresholds)
            self.typed = panel_component(elem_id="study-typed")
            with gr.Row(elem_classes=["mars-prompt-panel-line"]):
                self.note = text_panel("mars-page mars-study-estimate")
                self.run = self._button("Start", "study-run", variant="primary")
        self.studies = list_component("study")
        with gr.Row(elem_classes=["mars-quality-line"]):
            self.strip = strip_component(message_strip(HINT), scope=SCOPE)
            self.resume = self._button("Resume", "quality-resume", visible=False)
            self.stop = StopButton(
                services, elem_id=f"{SCOPE}-stop", visible=False, min_width=120, scale=0
            )
        # not visible=False: Gradio loses the properties of a component that is updated before it
        # was ever mounted
        with gr.Column(elem_classes=[RESULT, "mars-quality", "mars-away"]) as self.result:
            self.first = panel_component(elem_id="quality-first")
            with gr.Column(elem_classes=["mars-panel"]):
                self.downloads = downloads_component("quality-downloads")
                self.sharing = share_component(SCOPE)
            self.prompts = study_panel("quality-prompts")
            self.texts = panel_component(elem_id="quality-texts")
            self.pair = RunPair(SCOPE)  # both runs of the prompt that is read
            self.rest = panel_component(elem_id="quality-rest")
        self.timer = gr.Timer(5.0, active=False)
        line = [self.studies, self.strip, self.resume, self.stop.button, self.result]
        report = [self.first, self.prompts, self.texts, *self.pair.outputs, self.rest]
        self.outputs = [
            *line,
            self.downloads,
            self.sharing,
            *report,
            self.timer,
            *self.opened,
        ]

    def _button(self, text: str, element: str, **more: Any) -> gr.Button:
        return gr.Button(text, elem_id=element, min_width=120, scale=0, **more)
