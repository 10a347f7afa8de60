"""The Compare tab: prompt and settings, lanes side by side, and what came of them, put together
from their parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import gradio as gr

from evaluation.report.verdicts import Verdicts
from mars_core.models import CATALOG
from mars_core.types import Trace
from ui.jobs.services import Services
from ui.kit.assets import asset
from ui.kit.components import message_strip
from ui.kit.events import LATEST, Updates
from ui.kit.labels import lane_labels
from ui.result import example
from ui.result.result import ComparisonResult, ended_result
from ui.result.view import ResultView
from ui.settings.parameters import PRESETS
from ui.settings.values import MOST_LANES, parse
from ui.sharing import wire_share
from ui.tabs.compare.arrange import (
    CompareParts,
    empty_lane,
    request_json,
    set_lanes,
    wire_lanes,
)
from ui.tabs.compare.opening import Opening
from ui.tabs.compare.prompt_panel import PromptPanel
from ui.tabs.compare.running import Running
from ui.tabs.compare.safety import assured

EXAMPLE = f"Stored example of {CATALOG[0].title}; press Compare for a run of your own"


class CompareTab(CompareParts):
    def __init__(self, services: Services, address: gr.HTML) -> None:
        self.services, self.prompt_panel = services, PromptPanel(services)
        self.verdicts = Verdicts()
        traces = dict(enumerate(example.stored()))
        self.note = gr.HTML(
            request_json(traces[0].config.prompt.text, {}),
            html_template='<p class="mars-request" role="status" hidden></p>',
            js_on_load=asset("request.js", "tabs/compare"),
            apply_default_css=False,
            elem_id="compare-request",
        )
        self.view = ResultView(
            "compare",
            message_strip(""),
            tuple(map(empty_lane, range(MOST_LANES))),
            continues=True,
        )
        example_ = example_result(traces)
        strip = assured(example_.strip, services, self.verdicts)
        self.view.begin_with(replace(example_, strip=strip))
        self.displayed = gr.State(None)
        self.address = address

    def wire(self) -> None:
        component = self.prompt_panel.panel.component
        self.prompt_panel.wire()
        preset = [self.prompt_panel.preset, component]
        self.prompt_panel.preset.input(self.apply, preset, [component, *self.view.cards], **LATEST)
        wire_lanes(self)
        Running(**vars(self)).wire()
        Opening(**vars(self)).wire()
        wire_share(self.services, self.view.sharing)

    def apply(self, key: str | None, value: str | None) -> Updates:
        if key is None or key not in PRESETS:
            return {self.prompt_panel.panel.component: gr.update()}
        preset, values = PRESETS[key], parse(value)
        lanes = [{"rule": rule, **parameters} for rule, parameters in preset.rules]
        return set_lanes(self.prompt_panel.panel, self.view, {**values, **preset.fields}, lanes)


def example_result(traces: Mapping[int, Trace]) -> ComparisonResult:
    """Return the stored example as a result that says what it is."""
    labels = lane_labels([trace.config for trace in traces.values()])
    result = ended_result(traces, "example", labels, side=EXAMPLE)
    return replace(
        result,
        strip=replace(result.strip, state="example"),
        lanes=tuple(replace(lane, state="example") for lane in result.lanes),
    )
