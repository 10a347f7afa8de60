"""The Compare tab: prompt and settings, lanes side by side, and what came of them, put together
from their parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import gradio as gr

from evaluation.report.verdicts import Verdicts
from mars_core.models import CATALOG
from mars_core.types import Trace
from ui.jobs.services import Services
from ui.kit.address import FIRST, address_patch
from ui.kit.assets import asset
from ui.kit.components import message_strip
from ui.kit.events import LATEST, Updates, event_data
from ui.kit.labels import lane_labels
from ui.result import example
from ui.result.result import ComparisonResult, ended_result
from ui.result.view import ResultView
from ui.settings.parameters import PRESETS
from ui.settings.values import LINK_NAMES, MOST_LANES, parse
from ui.sharing import HIDDEN, wire_share
from ui.tabs.compare.arrange import (
    CompareParts,
    empty_lane,
    request_json,
    set_lanes,
    wire_lanes,
)
from ui.tabs.compare.follow_up import FollowUp
from ui.tabs.compare.opening import OF_RESULT, Opening
from ui.tabs.compare.prompt_panel import PromptPanel
from ui.tabs.compare.running import Running
from ui.tabs.compare.safety import assured

EXAMPLE = "Stored example; press Compare for a run of your own"


class CompareTab(CompareParts):
    def __init__(self, services: Services, address: gr.HTML) -> None:
        self.services, self.prompt_panel = services, PromptPanel(services)
        self.verdicts = Verdicts()
        stored = example.stored()
        self.note = gr.HTML(
            request_of(stored),
            html_template='<p class="mars-request" role="status" hidden></p>',
            js_on_load=asset("request.js", "tabs/compare"),
            apply_default_css=False,
            elem_id="compare-request",
        )
        self.follow_up = FollowUp()
        self.view = ResultView(
            "compare",
            message_strip(""),
            tuple(map(empty_lane, range(MOST_LANES))),
            asks=self.follow_up.row,
        )
        self.view.begin_with(self.example_of(stored))
        self.displayed = gr.State(None)
        self.address = address

    def wire(self) -> None:
        component = self.prompt_panel.panel.component
        self.prompt_panel.wire()
        preset = [self.prompt_panel.preset, component]
        self.prompt_panel.preset.input(self.apply, preset, [component, *self.view.cards], **LATEST)
        chosen = [*self.view.outputs, self.view.sharing, self.displayed, self.note, self.address]
        self.prompt_panel.chips.select(self.show_example, component, chosen, **LATEST)
        wire_lanes(self)
        Running(**vars(self)).wire()
        Opening(**vars(self)).wire()
        wire_share(self.services, self.view.sharing)

    def apply(self, key: str | None, value: str | None) -> Updates:
        if key is None or key not in PRESETS:
            return {self.prompt_panel.panel.component: gr.update()}
        preset, values = PRESETS[key], parse(value)
        lanes = [{"rule": rule, **parameters} for rule, parameters in preset.rules]
        filled = {**values, **preset.fields, "at": None}  # newer than what is still to be answered
        return set_lanes(self.prompt_panel.panel, self.view, filled, lanes)

    def show_example(self, value: str | None, event: gr.EventData) -> Updates:
        """Show the stored result of the example prompt that was chosen, where there is one."""
        values, index = parse(value), event_data(event).get("index")
        known = self.prompt_panel.panel.spec(values) == CATALOG[0]
        if not known or not isinstance(index, int) or not 0 <= index < len(example.PROMPTS):
            return {self.displayed: gr.skip()}
        stored = example.stored(index)
        result = self.example_of(stored)
        empty = tuple(map(empty_lane, range(len(result.lanes), MOST_LANES)))
        updates = self.view.update(result.strip, result.lanes + empty, result.turns)
        return updates | {
            **self.view.show(result.details),
            self.view.sharing: HIDDEN.html(),
            self.displayed: None,
            self.note: request_of(stored),
            self.address: address_patch(FIRST, dict.fromkeys((*OF_RESULT, *LINK_NAMES), "")),
        }

    def example_of(self, stored: Sequence[Trace]) -> ComparisonResult:
        """Return stored runs as a result that says what it is."""
        result = example_result(stored)
        return replace(result, strip=assured(result.strip, self.services, self.verdicts))


def request_of(stored: Sequence[Trace]) -> str:
    """Return what stored runs were asked for with, for request.js."""
    rules = [trace.config.rule for trace in stored]
    lanes = [{"rule": rule.name, **rule.parameters} for rule in rules]
    return request_json(stored[0].config.prompt.text, {"lanes": lanes})


def example_result(stored: Sequence[Trace]) -> ComparisonResult:
    """Return stored runs as a result whose strip and lanes are marked as an example."""
    labels = lane_labels([trace.config for trace in stored])
    name = f"example {example.PROMPTS.index(stored[0].config.prompt.text)}"
    result = ended_result(dict(enumerate(stored)), name, labels, side=EXAMPLE)
    return replace(
        result,
        strip=replace(result.strip, state="example"),
        lanes=tuple(replace(lane, state="example", continues=False) for lane in result.lanes),
    )
