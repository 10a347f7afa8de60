"""The Compare tab: prompt and settings, lanes side by side, and what came of them, put together from their parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import gradio as gr

from mars_core.models import PairSpec
from mars_core.types import Trace
from ui.jobs.services import Services
from ui.kit.components import message_strip
from ui.kit.events import PRIVATE
from ui.kit.labels import lane_labels
from ui.result import example
from ui.result.result import Result, ended_result
from ui.result.stored_runs import StoredRuns
from ui.result.view import ResultView, Updates
from ui.settings.form import MOST_LANES, Form, LaneForm, settings_label
from ui.settings.presets import PRESETS
from ui.tabs.compare.arrange import Lanes, build_lanes, empty_lane, wire_lanes
from ui.tabs.compare.ask import Ask, build_ask, label_event, wire_ask
from ui.tabs.compare.running import Running, wire_running
from ui.tabs.settings import FormFields

EXAMPLE = "Stored example of the bundled pair; press Compare for a run of your own"


@dataclass(frozen=True, slots=True)
class CompareTab:
    """What others may set: all fields of the tab."""

    fields: FormFields
    lanes: Lanes
    view: ResultView
    drawer: gr.Accordion
    catalog: Sequence[PairSpec]

    @property
    def outputs(self) -> list[Any]:
        """What ``fill`` changes."""
        return [self.drawer, *self.fields.by_name.values(), *self.lanes.outputs(self.view)]

    def fill(self, form: Form) -> Updates:
        """The fields and lanes of a form."""
        changed: Updates = {field: getattr(form, name) for name, field in self.fields.by_name.items()}
        for head, lane in zip(self.lanes.heads, form.lanes, strict=False):
            changed |= head.write(lane)
        changed[self.drawer] = gr.update(label=settings_label(form, self.catalog))
        return changed | self.lanes.set_count(self.view, len(form.lanes))


def build_compare_tab(services: Services) -> CompareTab:
    """The tab and its events."""
    built: list[Lanes] = []
    ask = build_ask(services, lambda: built.append(build_lanes(services.catalog[0])))
    (lanes,) = built
    traces = dict(enumerate(example.stored()))
    keys = {lane: f"example-{lane}" for lane in traces}
    views = tuple(map(empty_lane, range(MOST_LANES)))
    stored = StoredRuns(services, {keys[lane]: trace for lane, trace in traces.items()})
    view = ResultView("compare", message_strip(""), views, stored, continues=True)
    view.begin_with(example_result(traces, keys))
    fields = FormFields(ask.by_name, lanes.heads, lanes.count)
    first = fields.form(tuple(field.value for field in fields.inputs))
    ask.drawer.label = settings_label(first, services.catalog)
    wire_ask(services, ask, fields)
    wire_lanes(services, lanes, view)
    _wire_presets(services, ask, fields, lanes, view)
    wire_running(Running(services, ask, fields, lanes, view))
    return CompareTab(fields, lanes, view, ask.drawer, services.catalog)


def example_result(traces: Mapping[int, Trace], keys: Mapping[int, str]) -> Result:
    """The stored example as a result that says what it is. ``keys``: under which its runs are read."""
    labels = lane_labels([trace.config for trace in traces.values()])
    result = ended_result(traces, "example", labels, side=EXAMPLE, ids=keys)
    return replace(
        result,
        strip=replace(result.strip, state="example"),
        lanes=tuple(replace(lane, state="example") for lane in result.lanes),
    )


def _wire_presets(services: Services, ask: Ask, fields: FormFields, lanes: Lanes, view: ResultView) -> None:
    preset_fields = [ask.by_name[name] for name in ask.by_name if name not in ("prompt", "pair")]

    def apply(key: str | None) -> Updates:
        if key is None or key not in PRESETS:
            return {lanes.count: gr.update()}
        preset = PRESETS[key]
        changed: Updates = {ask.by_name[name]: value for name, value in preset.fields.items()}
        for head, (rule, parameters) in zip(lanes.heads, preset.rules, strict=False):
            changed |= head.write(LaneForm(rule, parameters))
        return changed | lanes.set_count(view, len(preset.rules))

    ask.preset.input(apply, ask.preset, [*lanes.outputs(view), *preset_fields], **PRIVATE).then(
        **label_event(services, ask, fields)
    )
