"""The Compare tab: prompt and settings, lanes side by side, and what came of them, put together from their parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gradio as gr

from ui.jobs.services import Services
from ui.kit.components import message_strip
from ui.kit.events import PRIVATE
from ui.result.stored_runs import StoredRuns
from ui.result.view import ResultView, Updates
from ui.settings.form import MOST_LANES, Form
from ui.settings.presets import PRESETS
from ui.settings.rules import RuleFields, lane_head
from ui.tabs.compare.arrange import LaneButtons, Lanes, empty_lane, first_count, lane_buttons, lane_tools, wire_lanes
from ui.tabs.compare.ask import Ask, build_ask, wire_ask
from ui.tabs.compare.running import Running, wire_running
from ui.tabs.settings import FormFields

HINT = "Press Compare: the prompt is decoded once in each lane, and every token says how it came to be."


@dataclass(frozen=True, slots=True)
class CompareTab:
    """What others may set: all fields of the tab."""

    fields: FormFields
    lanes: Lanes
    view: ResultView

    @property
    def outputs(self) -> list[Any]:
        """What ``fill`` changes."""
        return [
            *self.fields.by_name.values(),
            *self.lanes.head_fields,
            *self.lanes.all_buttons,
            *self.view.cards,
            self.lanes.count,
        ]

    def fill(self, form: Form) -> Updates:
        """The fields and lanes of a form."""
        changed: Updates = {field: getattr(form, name) for name, field in self.fields.by_name.items()}
        for head, lane in zip(self.lanes.heads, form.lanes, strict=False):
            changed |= head.write(lane.rule, lane.parameters, lane.draft)
        return changed | self.lanes.set_count(self.view, len(form.lanes))


def build_compare_tab(services: Services) -> CompareTab:
    """The tab and its events."""
    ask = build_ask(services)
    heads: list[RuleFields] = []
    buttons: list[LaneButtons] = []
    tools: list[tuple[gr.Dropdown, gr.Button]] = []

    def head(lane: int) -> None:
        buttons.append(lane_buttons(lane))
        heads.append(lane_head(lane, services.catalog[0]))

    views = tuple(map(empty_lane, range(MOST_LANES)))
    view = ResultView(
        "compare", message_strip(HINT), views, StoredRuns(services), head=head, continues=True,
        tools=lambda: tools.append(lane_tools(services.catalog[0])),
    )  # fmt: skip
    lanes = Lanes(first_count(), gr.State(None), *tools[0], tuple(buttons), tuple(heads))
    fields = FormFields(ask.by_name, lanes.heads, lanes.count)
    wire_ask(services, ask, lanes.heads, lanes.preset)
    wire_lanes(services, lanes, view)
    _wire_presets(ask, lanes, view)
    wire_running(Running(services, ask, fields, lanes, view))
    return CompareTab(fields, lanes, view)


def _wire_presets(ask: Ask, lanes: Lanes, view: ResultView) -> None:
    fields = [ask.by_name[name] for name in ask.by_name if name not in ("prompt", "pair")]

    def apply(key: str | None) -> Updates:
        if key is None or key not in PRESETS:
            return {lanes.count: gr.update()}
        preset = PRESETS[key]
        changed: Updates = {ask.by_name[name]: value for name, value in preset.fields.items()}
        for head, (rule, parameters) in zip(lanes.heads, preset.rules, strict=False):
            changed |= head.write(rule, parameters)
        return changed | lanes.set_count(view, len(preset.rules))

    outputs = [lanes.count, *lanes.all_buttons, *view.cards, *lanes.head_fields, *fields]
    lanes.preset.input(apply, lanes.preset, outputs, **PRIVATE)
