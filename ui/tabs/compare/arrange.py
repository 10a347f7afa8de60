"""How many lanes there are and in which order: add, remove, move to the left. What the lanes show
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
from ui.kit.events import LATEST, Updates, event_data
from ui.result.result import by_column, reopened
from ui.result.view import ResultView
from ui.settings.lanes import DEFAULT_RULES
from ui.settings.panel import SettingsPanel
from ui.settings.values import LEAST_LANES, MOST_LANES, EnteredValues, applied, lanes_of, parse
from ui.tabs.compare.follow_up import FollowUp
from ui.tabs.compare.frames import DisplayedComparison
from ui.tabs.compare.prompt_panel import PromptPanel
from ui.tabs.compare.safety import assured
from ui.token_view.view import LaneView


@dataclass
class CompareParts:
    """``displayed``: the state with what the lanes show, a DisplayedComparison or None; ``note`` has
    the settings of their request; ``address``: the page's keeper of it."""

    services: Services
    prompt_panel: PromptPanel
    displayed: gr.State
    view: ResultView
    follow_up: FollowUp
    note: gr.HTML
    address: gr.HTML
    verdicts: Verdicts


def empty_lane(lane: int) -> LaneView:
    rule = DEFAULT_RULES[lane]
    values = {each.name: float(each.default) for each in RULES[rule].parameters}
    return LaneView(rule_label(rule, values))


def request_json(prompt: str | None, values: EnteredValues) -> str:
    """Return the request of a result, for request.js: without what its drafters do not take."""
    lanes = {"lanes": list(map(applied, lanes_of(values)))} if "lanes" in values else {}
    return to_json({"prompt": prompt or "", "values": applied(values) | lanes})


def wire_lanes(parts: CompareParts) -> None:
    panel, state, view = parts.prompt_panel.panel, parts.displayed, parts.view

    def arrange(
        value: str | None,
        displayed: DisplayedComparison | None,
        event: gr.EventData,
        request: gr.Request,
    ) -> Updates:
        wanted, values = event_data(event), parse(value)
        lanes, lane = lanes_of(values)[:MOST_LANES], wanted.get("lane")
        if wanted.get("do") == "add" and len(lanes) < MOST_LANES:
            added: Updates = {view.lanes[len(lanes)]: empty_lane(len(lanes)).json()}
            if displayed:
                added |= {state: replace(displayed, lanes=(*displayed.lanes, None)[:MOST_LANES])}
            return set_lanes(panel, view, values, [*lanes, {}]) | added
        if not isinstance(lane, int) or not 0 <= lane < len(lanes):
            return {panel.component: gr.update()}
        order = list(range(len(lanes)))
        if wanted.get("do") == "left" and lane:
            order[lane - 1], order[lane] = order[lane], order[lane - 1]
        elif wanted.get("do") == "remove" and len(lanes) > LEAST_LANES:
            del order[lane]
        services = parts.services.for_visitor(request)
        moved = set_lanes(panel, view, values, [lanes[old] for old in order])
        return moved | _redrawn(services, parts, order, displayed)

    panel.component.input(
        arrange,
        [panel.component, state],
        [state, panel.component, *view.cards, *view.outputs],
        **LATEST,
    )


def set_lanes(
    panel: SettingsPanel, view: ResultView, values: EnteredValues, lanes: Sequence[EnteredValues]
) -> Updates:
    return {panel.component: panel.value({**values, "lanes": lanes})} | view.show_lanes(len(lanes))


def _redrawn(
    services: Services,
    parts: CompareParts,
    order: Sequence[int],
    displayed: DisplayedComparison | None,
) -> Updates:
    """Return the result in the new order. Where a lane was not run since, only the lanes move."""
    state, view = parts.displayed, parts.view
    if displayed is None:
        return {}
    columns = (*displayed.lanes, *[None] * MOST_LANES)
    lanes = tuple(columns[old] for old in order)
    try:
        stored = services.store.load(displayed.comparison)
    except StorageError:
        return {state: None}
    ran, result = by_column(stored, lanes).traces, reopened(stored, lanes)
    views = tuple(
        each if column in ran else empty_lane(column) for column, each in enumerate(result.lanes)
    )
    strip = assured(result.strip, services, parts.verdicts) if len(ran) == len(lanes) else None
    changed = view.update(strip, views)
    changed |= view.show(result.details) if ran else {}
    return changed | {state: replace(displayed, lanes=lanes)}
