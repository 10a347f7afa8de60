"""The Sweep tab: a grid of settings on some prompts, each as a pair with strict. Wires components to the plain handlers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import gradio as gr

from evaluation.sweeps.tradeoff import Cost
from ui.components import words
from ui.running import ACCELERATOR
from ui.sweep_fields import SweepFields, build_fields, told, wire_fields
from ui.sweep_handlers import SweepFrame, reopened, run
from ui.sweep_view import FIRST, SweepView, Updates, build_view, earlier_json, pairs_json
from ui.workplace import Workplace

CHART_S = 3.0  # between two drawings of the chart while a sweep runs
PRIVATE: Mapping[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
BROKE = "The sweep broke off by an error of this program; its log says more. What had ended is kept below."


@dataclass(frozen=True, slots=True)
class SweepTab:
    """The tab's parts. ``opened`` holds the id of the sweep that is shown, or the empty string."""

    workplace: Workplace
    fields: SweepFields
    view: SweepView
    opened: gr.State

    @property
    def outputs(self) -> list[Any]:
        """What ``open`` changes."""
        return [*self.view.outputs, self.view.earlier, self.opened]

    def open(self, sweep_id: str, cost: str) -> Updates:
        """A stored sweep as it was shown when it ended; for the list and for the page's address."""
        frame = reopened(self.workplace.store, sweep_id)
        shown = self.view.show(frame.shown, _cost(cost)) if frame.shown else {}
        opened = frame.shown.id if frame.shown else ""
        listed = {self.view.earlier: earlier_json(self.workplace.store, opened), self.opened: opened}
        return self.view.say(frame.strip) | {self.view.pairs: pairs_json(None, -1)} | shown | listed


def build_sweep_tab(workplace: Workplace, tab: gr.Tab) -> SweepTab:
    """The tab's components and events."""
    fields = build_fields(workplace)
    view = build_view()
    parts = SweepTab(workplace, fields, view, gr.State(""))
    wire_fields(workplace, fields)
    _wire_run(parts)
    _wire_view(parts)

    def enter(opened: str, *values: Any) -> tuple[str, str]:
        return earlier_json(workplace.store, opened), told(workplace, fields.form(values))

    tab.select(enter, [parts.opened, *fields.inputs], [view.earlier, fields.note], queue=False, **PRIVATE)
    return parts


def _wire_run(parts: SweepTab) -> None:
    fields, view, workplace = parts.fields, parts.view, parts.workplace
    buttons = [fields.run, fields.stop, view.cost]

    def begin(request: gr.Request) -> Updates:
        workplace.stops.begin(_visitor(request))
        starting = words("Starting; if something else is running, this sweep waits for it …", "running")
        return {
            fields.run: gr.update(visible=False),
            fields.stop: gr.update(visible=True, interactive=True, value="Stop"),
            view.cost: gr.update(interactive=False),
        } | view.say(starting)

    def sweep(request: gr.Request, cost: str, *values: Any) -> Iterator[Updates]:
        yield from _updates(parts, run(workplace, fields.form(values), _visitor(request)), _cost(cost))

    def ask_stop(request: gr.Request) -> Any:
        workplace.stops.request(_visitor(request))
        return gr.update(value="Stopping …", interactive=False)

    def end(opened: str) -> Updates:
        return {
            fields.run: gr.update(visible=True),
            fields.stop: gr.update(visible=False),
            view.cost: gr.update(interactive=True),
            view.earlier: earlier_json(workplace.store, opened),
        }

    pressed = fields.run.click(begin, None, [*buttons, view.strip], queue=False, trigger_mode="once", **PRIVATE)
    running = pressed.then(
        sweep, [view.cost, *fields.inputs], parts.outputs, concurrency_id=ACCELERATOR, concurrency_limit=1, **PRIVATE
    )
    running.failure(lambda: words(BROKE, "failed").json(), None, view.strip, queue=False, **PRIVATE)
    running.then(end, parts.opened, [*buttons, view.earlier], queue=False, **PRIVATE)
    fields.stop.click(ask_stop, None, fields.stop, queue=False, **PRIVATE)


def _updates(parts: SweepTab, frames: Iterator[SweepFrame], cost: Cost) -> Iterator[Updates]:
    """Frames as updates. The chart is drawn when something ends and at most every few seconds before: drawing takes the browser long."""
    drawn, before = 0.0, ""
    for frame in frames:
        changed = parts.view.say(frame.strip)
        if frame.shown:
            due = frame.strip.state != "running" or time.monotonic() - drawn >= CHART_S
            drawn = time.monotonic() if due else drawn
            changed |= parts.view.show(frame.shown, cost, chart=due) | {parts.opened: frame.shown.id}
            changed |= {parts.view.pairs: pairs_json(None, -1)} if frame.shown.id != before else {}
            before = frame.shown.id
        yield changed


def _wire_view(parts: SweepTab) -> None:
    view, store = parts.view, parts.workplace.store

    def against(opened: str, cost: str) -> Updates:
        shown = reopened(store, opened).shown
        return view.show(shown, _cost(cost)) if shown else {view.strip: gr.update()}

    def choose(opened: str, event: gr.EventData) -> str:
        row = event._data.get("row")
        return pairs_json(reopened(store, opened).shown, row if isinstance(row, int) else -1)

    def open_sweep(cost: str, event: gr.EventData) -> Updates:
        return parts.open(str(event._data.get("id", "")), cost)

    view.cost.input(against, [parts.opened, view.cost], view.outputs, queue=False, **PRIVATE)
    view.table.select(choose, parts.opened, view.pairs, queue=False, **PRIVATE)
    view.earlier.select(open_sweep, view.cost, parts.outputs, queue=False, **PRIVATE)


def _cost(value: str) -> Cost:
    return Cost(value) if value in list(Cost) else FIRST


def _visitor(request: gr.Request) -> str:
    """Apart from the same visitor's comparison, which has a Stop of its own."""
    return f"{request.session_hash}/sweep"
