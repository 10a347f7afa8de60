"""How many lanes there are and in which order: add, remove, move to the left. What the lanes show moves with their heads.

The leftmost lane is the baseline, so a result is put together anew for the new order, from the saved runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import gradio as gr

from mars_core.models import PairSpec
from mars_core.rules import RULES
from mars_core.types import RunConfig
from storage import RunStore, StorageError
from ui.jobs.services import Services
from ui.kit.events import PRIVATE
from ui.kit.labels import lane_labels, parameter_title, rule_title
from ui.result.result import ended_result, run_speeds
from ui.result.view import ResultView, Updates, card_classes, show_columns
from ui.settings.form import FIRST_LANES, LEAST_LANES, MOST_LANES, LaneForm
from ui.settings.rules import DEFAULT_RULES, RuleFields, lane_head
from ui.tabs.compare.frames import Shown
from ui.token_view.tiles import Counts, stat_tiles
from ui.token_view.view import LaneView


@dataclass(frozen=True, slots=True)
class LaneButtons:
    """Of one card."""

    left: gr.Button
    remove: gr.Button


@dataclass(frozen=True, slots=True)
class Lanes:
    """The lanes' rules and their order. ``shown``: the comparison that the lanes show, a Shown or None."""

    count: gr.State
    shown: gr.State
    add: gr.Button
    columns: tuple[gr.Column, ...]
    buttons: tuple[LaneButtons, ...]
    heads: tuple[RuleFields, ...]

    @property
    def all_buttons(self) -> list[gr.Button]:
        return [self.add, *(button for pair in self.buttons for button in (pair.left, pair.remove))]

    @property
    def head_fields(self) -> list[Any]:
        return [field for head in self.heads for field in head.inputs]

    def forms(self, values: Iterable[Any]) -> list[LaneForm]:
        """Of all lanes, from the values of ``head_fields``."""
        given = iter(values)
        return [head.read(given) for head in self.heads]

    def _allow(self, count: int) -> Updates:
        """What can be done with that many lanes."""
        changed: Updates = {self.add: gr.update(interactive=count < MOST_LANES)}
        for lane, pair in enumerate(self.buttons):
            changed[pair.left] = gr.update(interactive=0 < lane < count)
            changed[pair.remove] = gr.update(interactive=count > LEAST_LANES)
        return changed

    def set_count(self, view: ResultView, count: int) -> Updates:
        return {self.count: count} | self._allow(count) | view.show_lanes(count) | show_columns(self.columns, count)

    def outputs(self, view: ResultView) -> list[Any]:
        """What ``set_count`` and the heads' ``write`` change."""
        return [self.count, *self.all_buttons, *self.columns, *view.cards, *self.head_fields]


def build_lanes(spec: PairSpec) -> Lanes:
    """The fields of every lane, side by side, and the button for one more."""
    columns: list[gr.Column] = []
    buttons: list[LaneButtons] = []
    heads: list[RuleFields] = []
    with gr.Row(equal_height=False, elem_classes=["mars-lanes", "mars-lane-settings"]):
        for lane in range(MOST_LANES):
            with gr.Column(elem_classes=card_classes(lane, shown=lane < FIRST_LANES), min_width=240) as column:
                with gr.Row(elem_classes=["mars-card-tools"]):
                    left = gr.Button("← Move left", size="sm", elem_id=f"left-lane-{lane}", visible=lane > 0)
                    remove = gr.Button("Remove", size="sm", elem_id=f"remove-lane-{lane}")
                buttons.append(LaneButtons(left, remove))
                heads.append(lane_head(lane, spec))
            columns.append(column)
    add = gr.Button("Add a lane", size="sm", elem_id="add-lane")
    return Lanes(gr.State(FIRST_LANES), gr.State(None), add, tuple(columns), tuple(buttons), tuple(heads))


def empty_lane(lane: int) -> LaneView:
    """A lane before its first run."""
    rule = DEFAULT_RULES[lane]
    values = ", ".join(f"{parameter_title(p.name)} = {p.default:g}" for p in RULES[rule].parameters)
    return LaneView(f"{rule_title(rule)} {values}".strip(), tiles=stat_tiles(Counts()))


def wire_lanes(services: Services, lanes: Lanes, view: ResultView) -> None:
    outputs = [lanes.shown, *lanes.outputs(view), *view.outputs]
    inputs = [lanes.count, lanes.shown, *lanes.head_fields]

    def add(count: int, shown: Shown | None) -> Updates:
        count = min(MOST_LANES, count + 1)
        fresh = {view.lanes[count - 1]: empty_lane(count - 1).json()}
        known = {lanes.shown: replace(shown, lanes=(*shown.lanes, None)[:MOST_LANES])} if shown else {}
        return lanes.set_count(view, count) | fresh | known

    def arranged(request: gr.Request, order: Sequence[int], shown: Shown | None, values: Sequence[Any]) -> Updates:
        moved, store = _moved_heads(lanes, order, values), services.seen_by(request).store
        return lanes.set_count(view, len(order)) | moved | _shown_anew(store, lanes, view, order, shown)

    def to_left(lane: int) -> Any:
        def move(request: gr.Request, count: int, shown: Shown | None, *values: Any) -> Updates:
            order = list(range(count))
            if lane < count:
                order[lane - 1], order[lane] = order[lane], order[lane - 1]
            return arranged(request, order, shown, values)

        return move

    def away(lane: int) -> Any:
        def leave(request: gr.Request, count: int, shown: Shown | None, *values: Any) -> Updates:
            return arranged(request, [other for other in range(count) if other != lane], shown, values)

        return leave

    lanes.add.click(add, [lanes.count, lanes.shown], outputs, **PRIVATE)
    for lane, pair in enumerate(lanes.buttons):
        pair.remove.click(away(lane), inputs, outputs, **PRIVATE)
        if lane:
            pair.left.click(to_left(lane), inputs, outputs, **PRIVATE)


def _moved_heads(lanes: Lanes, order: Sequence[int], values: Sequence[Any]) -> Updates:
    """Every head gets the values of the one that stood where ``order`` says."""
    forms = lanes.forms(values)
    changed: Updates = {}
    for new, old in enumerate(order):
        if new != old:
            changed |= lanes.heads[new].write(forms[old])
    return changed


def _shown_anew(store: RunStore, lanes: Lanes, view: ResultView, order: Sequence[int], shown: Shown | None) -> Updates:
    """The result in the new order. Where a lane was not run since, only the lanes move."""
    if shown is None:
        return {}
    columns = (*shown.lanes, *[None] * MOST_LANES)
    kept = tuple(columns[old] for old in order)
    try:
        loaded = store.load(shown.comparison)
    except StorageError:
        return {lanes.shown: None}
    stored, measured = {run.lane: run for run in loaded.runs}, run_speeds(loaded)
    traces = {new: stored[lane].trace for new, lane in enumerate(kept) if lane in stored}
    ids = {new: stored[lane].id for new, lane in enumerate(kept) if lane in stored}
    speeds = {new: measured[lane] for new, lane in enumerate(kept) if lane in measured}
    now = replace(shown, lanes=kept)
    if not traces:
        return {lanes.shown: now} | {view.lanes[new]: empty_lane(new).json() for new in range(len(order))}
    name = f"{shown.comparison}/{'-'.join(map(str, kept))}"
    result = ended_result(traces, name, _labels(traces, len(order)), ids=ids, speeds=speeds)
    if len(traces) == len(order):
        return {lanes.shown: now} | view.update(result.strip, result.lanes) | view.show(result.details)
    views = tuple(view if lane in traces else empty_lane(lane) for lane, view in enumerate(result.lanes))
    return {lanes.shown: now} | view.update(None, views) | view.show(result.details)


def _labels(traces: dict[int, Any], count: int) -> list[str]:
    configs: list[RunConfig] = [trace.config for trace in traces.values()]
    named = dict(zip(traces, lane_labels(configs), strict=True))
    return [named.get(lane, "Another lane") for lane in range(count)]
