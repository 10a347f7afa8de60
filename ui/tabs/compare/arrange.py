"""How many lanes there are and in which order: a preset, add, remove, move to the left. What they show
moves with their settings.

The leftmost lane is the baseline, so a result is put together anew for the new order, from the
saved runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import gradio as gr

from display.names import rule_label
from display.sources import to_json
from evaluation.report.verdicts import Verdicts
from mars_core.rules import RULES
from storage import StorageError
from ui.jobs.services import Services
from ui.kit.components import message_strip
from ui.kit.events import LATEST, Updates, event_data
from ui.result.result import by_column, ended_result
from ui.result.view import ResultView
from ui.settings.lanes import DEFAULT_RULES
from ui.settings.parameters import PRESETS
from ui.settings.values import LEAST_LANES, MOST_LANES, EnteredValues, applied, lanes_of, parse
from ui.tabs.compare.frames import DisplayedComparison
from ui.tabs.compare.prompt_panel import FollowUp, PromptPanel
from ui.tabs.compare.safety import assured
from ui.token_view.view import LaneView


@dataclass
class CompareParts:
    """What the events of the tab work on. ``displayed``: the state with what the lanes show, a
    DisplayedComparison or None; ``note`` has the settings of their request; ``address``: the page's
    keeper of it."""

    services: Services
    prompt_panel: PromptPanel
    displayed: gr.State
    view: ResultView
    follow_up: FollowUp
    note: gr.HTML
    address: gr.HTML
    verdicts: Verdicts

    @property
    def settings(self) -> gr.HTML:
        return self.prompt_panel.panel.component

    def set_lanes(self, values: EnteredValues, lanes: Sequence[EnteredValues]) -> Updates:
        value = self.prompt_panel.panel.value({**values, "lanes": lanes})
        return {self.settings: value} | self.view.show_lanes(len(lanes))

    def say(self, text: str, state: str = "failed") -> Updates:
        return self.view.update(message_strip(text, state), ())


class Arrangement(CompareParts):
    def wire(self) -> None:
        changed = [self.displayed, self.settings, *self.view.cards, *self.view.outputs]
        self.settings.input(self.arrange, [self.settings, self.displayed], changed, **LATEST)
        preset, lanes = self.prompt_panel.preset, [self.settings, *self.view.cards]
        preset.input(self.apply, [preset, self.settings], lanes, **LATEST)

    def apply(self, key: str | None, value: str | None) -> Updates:
        if key is None or key not in PRESETS:
            return {self.settings: gr.update()}
        preset, values = PRESETS[key], parse(value)
        lanes = [{"rule": rule, **parameters} for rule, parameters in preset.rules]
        # newer than what is still to be answered
        return self.set_lanes({**values, **preset.fields, "at": None}, lanes)

    def arrange(
        self,
        value: str | None,
        displayed: DisplayedComparison | None,
        event: gr.EventData,
        request: gr.Request,
    ) -> Updates:
        wanted, values = event_data(event), parse(value)
        lanes, lane, do = lanes_of(values)[:MOST_LANES], wanted.get("lane"), wanted.get("do")
        order = list(range(len(lanes)))
        if do == "add" and len(lanes) < MOST_LANES:
            added: Updates = {self.view.lanes[len(lanes)]: empty_lane(len(lanes)).json()}
            if displayed:
                columns = (*displayed.lanes, None)[:MOST_LANES]
                added |= {self.displayed: replace(displayed, lanes=columns)}
            return self.set_lanes(values, [*lanes, {}]) | added
        if do == "left" and lane in order[1:]:
            order[lane - 1], order[lane] = order[lane], order[lane - 1]
        elif do == "remove" and lane in order and len(lanes) > LEAST_LANES:
            order.remove(lane)
        else:
            return {self.settings: gr.update()}
        moved = self.set_lanes(values, [lanes[old] for old in order])
        if displayed is None:
            return moved
        columns = (*displayed.lanes, *[None] * MOST_LANES)
        arranged = replace(displayed, lanes=tuple(columns[old] for old in order))
        return moved | self._redrawn(self.services.for_visitor(request), arranged)

    def _redrawn(self, services: Services, displayed: DisplayedComparison) -> Updates:
        """Return the result in the new order. Where a lane was not run since, only the lanes
        move."""
        try:
            stored = services.store.load(displayed.comparison)
        except StorageError:
            return {self.displayed: None}
        result = ended_result(stored, displayed.lanes)
        ran = by_column(stored, displayed.lanes)
        views = tuple(
            each if column in ran else empty_lane(column)
            for column, each in enumerate(result.lanes)
        )
        whole = len(ran) == len(views)
        strip = assured(result.strip, services, self.verdicts) if whole else None
        changed = self.view.update(strip, views) | {self.displayed: displayed}
        return changed | (self.view.show(result.details) if ran else {})


def empty_lane(lane: int) -> LaneView:
    rule = DEFAULT_RULES[lane]
    values = {each.name: float(each.default) for each in RULES[rule].parameters}
    return LaneView(rule_label(rule, values))


def request_json(prompt: str | None, values: EnteredValues) -> str:
    """Return the request of a result, for request.js: without what its drafters do not take."""
    lanes = {"lanes": list(map(applied, lanes_of(values)))} if "lanes" in values else {}
    return to_json({"prompt": prompt or "", "values": applied(values) | lanes})
