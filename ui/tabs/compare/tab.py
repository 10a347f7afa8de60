"""The Compare tab: prompt and settings, lanes side by side, and what came of them, put together from their parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import gradio as gr

from mars_core.types import Trace
from ui.jobs.services import Services
from ui.kit.components import message_strip
from ui.kit.events import PRIVATE
from ui.kit.labels import lane_labels
from ui.result import example
from ui.result.result import Result, ended_result
from ui.result.stored_runs import StoredRuns
from ui.result.view import ResultView, Updates
from ui.settings.fields import parse
from ui.settings.form import MOST_LANES, Form
from ui.settings.presets import PRESETS
from ui.tabs.compare.arrange import empty_lane, set_lanes, wire_lanes
from ui.tabs.compare.ask import Ask, build_ask, wire_ask
from ui.tabs.compare.running import Running, wire_running

EXAMPLE = "Stored example of the bundled pair; press Compare for a run of your own"


@dataclass(frozen=True, slots=True)
class CompareTab:
    """What others may set: the prompt, all settings and the lanes."""

    ask: Ask
    view: ResultView

    @property
    def outputs(self) -> list[Any]:
        """What ``fill`` changes."""
        return [*self.ask.inputs, *self.view.cards]

    def fill(self, form: Form) -> Updates:
        """The fields and lanes of a form."""
        return self.ask.fill(form) | self.view.show_lanes(len(form.lanes))


def build_compare_tab(services: Services) -> CompareTab:
    """The tab and its events."""
    ask = build_ask(services)
    traces = dict(enumerate(example.stored()))
    keys = {lane: f"example-{lane}" for lane in traces}
    views = tuple(map(empty_lane, range(MOST_LANES)))
    stored = StoredRuns(services, {keys[lane]: trace for lane, trace in traces.items()})
    view = ResultView("compare", message_strip(""), views, stored, continues=True)
    view.begin_with(example_result(traces, keys))
    shown = gr.State(None)
    wire_ask(services, ask)
    wire_lanes(services, ask.panel, shown, view)
    _wire_presets(ask, view)
    wire_running(Running(services, ask, shown, view))
    return CompareTab(ask, view)


def example_result(traces: Mapping[int, Trace], keys: Mapping[int, str]) -> Result:
    """The stored example as a result that says what it is. ``keys``: under which its runs are read."""
    labels = lane_labels([trace.config for trace in traces.values()])
    result = ended_result(traces, "example", labels, side=EXAMPLE, ids=keys)
    return replace(
        result,
        strip=replace(result.strip, state="example"),
        lanes=tuple(replace(lane, state="example") for lane in result.lanes),
    )


def _wire_presets(ask: Ask, view: ResultView) -> None:
    component = ask.panel.component

    def apply(key: str | None, value: str | None) -> Updates:
        if key is None or key not in PRESETS:
            return {component: gr.update()}
        preset, values = PRESETS[key], parse(value)
        lanes = [{"rule": rule, **parameters} for rule, parameters in preset.rules]
        return set_lanes(ask.panel, view, values | preset.fields, lanes)

    ask.preset.input(apply, [ask.preset, component], [component, *view.cards], **PRIVATE)
