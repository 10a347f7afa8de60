"""The events of Compare that compute: Compare, a new seed, a new θ, continuing from a token; and Stop.

All wait for their turn in ``ui/jobs/queue.py``; gradio holds up none of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import gradio as gr

from ui.jobs.admission import unbroken
from ui.jobs.pending import Pending
from ui.jobs.queue import COMPUTES
from ui.jobs.services import Services
from ui.kit.components import message_strip
from ui.kit.events import PRIVATE, QUEUED, event_data
from ui.result.details import Details
from ui.result.view import ResultView, Updates
from ui.settings.form import MOST_LANES
from ui.tabs.compare.arrange import Lanes
from ui.tabs.compare.ask import Ask, count_prompt
from ui.tabs.compare.frames import Frame, Shown
from ui.tabs.compare.handlers import continue_run, run_comparison
from ui.tabs.settings import FormFields

LARGEST_NEW_SEED = 2**31 - 1
Wish = tuple[int, int, int, float]  # continue: column, output position, token id, a number that makes it new
MOST_ENDED = 8  # comparisons whose details wait to be shown, which takes a page a moment


@dataclass(frozen=True, slots=True)
class Running:
    """What the events need to know of each other."""

    services: Services
    ask: Ask
    fields: FormFields
    lanes: Lanes
    view: ResultView
    ended: Pending[Details] = field(default_factory=lambda: Pending(MOST_ENDED))  # until the event after the last frame

    @property
    def buttons(self) -> list[Any]:
        return [self.ask.run, self.ask.again, self.ask.stop, *self.lanes.all_buttons]

    @property
    def streamed(self) -> list[Any]:
        """What frames change. As few as can be: for every frame the browser looks for each of them among all components of the page."""
        return [self.view.strip, *self.view.lanes, self.lanes.shown, self.view.details.box]

    def updates(self, frame: Frame, visitor: str) -> Updates:
        """A frame as updates; the details are hidden with the frame that opens a comparison, and shown by the event after the last."""
        changed = self.view.update(frame.strip, frame.lanes)
        if frame.details:
            self.ended.put(visitor, frame.details)
        if frame.opens:
            changed |= {self.view.details.box: gr.update(visible=False)}
        return changed | ({self.lanes.shown: frame.shown} if frame.shown else {})

    def shown(self, request: gr.Request, frames: Callable[[Services], Iterator[Frame]]) -> Iterator[Updates]:
        """The frames for whoever asked, as updates; an error of ours is the last one, told with its id."""

        def updates() -> Iterator[Updates]:
            place = self.services.seen_by(request)
            for frame in frames(place):
                yield self.updates(frame, place.key)

        return unbroken(updates(), lambda strip: self.view.update(strip, ()), "compare")

    def details(self, visitor: str) -> Updates:
        """Those of the comparison that just ended; without one nothing changes."""
        details = self.ended.take(visitor)
        return self.view.show(details) if details else {self.view.details.box: gr.update()}


def wire_running(parts: Running) -> None:
    """Compare and its kin, and Stop."""
    ask, fields = parts.ask, parts.fields
    services = parts.services

    def compare(request: gr.Request, *values: Any) -> Iterator[Updates]:
        yield from parts.shown(request, lambda place: run_comparison(place, fields.form(values), place.key))

    def ask_stop(request: gr.Request) -> Any:
        services.stops.request(services.seen_by(request).key)
        return gr.update(value="Stopping …", interactive=False)

    pressed = gr.on([ask.run.click, ask.by_name["prompt"].submit], trigger_mode="once", **_begin(parts))
    _run(parts, pressed, compare, fields.inputs)
    again = ask.again.click(
        lambda: random.randint(0, LARGEST_NEW_SEED), None, ask.by_name["seed"], trigger_mode="once", **PRIVATE
    )
    _run(parts, again.then(**_begin(parts)), compare, fields.inputs)
    ask.stop.click(ask_stop, None, ask.stop, **PRIVATE)
    _wire_theta(parts, compare)
    _wire_continue(parts)


def _begin(parts: Running) -> dict[str, Any]:
    """The event before a run: the buttons change, and earlier requests to stop no longer count."""

    def begin(request: gr.Request) -> Updates:
        parts.services.stops.begin(parts.services.seen_by(request).key)
        shown = {
            parts.ask.run: gr.update(visible=False),
            parts.ask.again: gr.update(interactive=False),
            parts.ask.stop: gr.update(visible=True, interactive=True, value="Stop"),
        }
        return shown | parts.lanes.lock() | parts.view.update(message_strip("Starting …", "running"), ())

    return {"fn": begin, "inputs": None, "outputs": [*parts.buttons, parts.view.strip], **PRIVATE}


def _run(parts: Running, begun: Any, handler: Callable[..., Iterator[Updates]], inputs: Sequence[Any]) -> None:
    """``handler`` after ``begun``; afterwards the buttons are as before. It waits for its turn itself, and says what broke it off."""

    def show(request: gr.Request) -> Updates:
        return parts.details(parts.services.seen_by(request).key)

    def end(count: int) -> Updates:
        shown = {parts.ask.run: gr.update(visible=True), parts.ask.stop: gr.update(visible=False)}
        return shown | {parts.ask.again: gr.update(interactive=True)} | parts.lanes.unlock(count)

    running = begun.then(handler, list(inputs), parts.streamed, **COMPUTES, **QUEUED)
    shown = running.then(show, None, parts.view.details.outputs, **PRIVATE)
    ended = shown.then(end, parts.lanes.count, parts.buttons, **PRIVATE)
    ended.then(count_prompt(parts.services), parts.ask.counted, parts.ask.tokens, **PRIVATE)


def _wire_theta(parts: Running, compare: Callable[..., Iterator[Updates]]) -> None:
    """“Run with this θ” of the bar above the lanes: θ goes to the lanes whose rule has one, else to the last as MARS."""
    heads = parts.lanes.heads

    def take(event: gr.EventData, count: int, *values: Any) -> Updates:
        theta = event_data(event).get("theta")
        if not isinstance(theta, int | float) or not 0 <= theta <= 1:
            return {heads[0].rule: gr.update()}
        forms = parts.lanes.forms(values)[:count]
        having = [(lane, form) for lane, form in enumerate(forms) if "theta" in form.parameters]
        changed: Updates = {}
        for lane, form in having or [(count - 1, replace(forms[-1], rule="mars"))]:
            changed |= heads[lane].write(replace(form, parameters={"theta": float(theta)}))
        return changed

    taken = parts.view.reader.select(
        take, [parts.lanes.count, *parts.lanes.head_fields], parts.lanes.head_fields, **PRIVATE
    )
    _run(parts, taken.then(**_begin(parts)), compare, parts.fields.inputs)


def _wire_continue(parts: Running) -> None:
    """A click on an alternative of a token: a wish, which opens the new lane and runs there."""
    wish = gr.State(None)
    lanes, view = parts.lanes, parts.view

    def wished(column: int) -> Any:
        def take(event: gr.EventData) -> Any:
            index, token = event_data(event).get("index"), event_data(event).get("token")
            valid = isinstance(index, int) and isinstance(token, int)
            return (column, index, token, random.random()) if valid else gr.skip()

        return take

    def open_lane(wanted: Wish | None, count: int, shown: Shown | None, *values: Any) -> Updates:
        if wanted is None or shown is None or None in shown.lanes or count >= MOST_LANES:
            return {lanes.count: count}  # the run itself says why it cannot be
        return lanes.set_count(view, count + 1) | lanes.heads[count].write(lanes.forms(values)[wanted[0]])

    def go_on(wanted: Wish | None, shown: Shown | None, request: gr.Request) -> Iterator[Updates]:
        if wanted is None or shown is None:
            yield view.update(message_strip("There is no run to continue; press Compare first.", "failed"), ())
            return
        column, index, token, _ = wanted
        yield from parts.shown(request, lambda place: continue_run(place, shown, column, index, token, place.key))

    for column, component in enumerate(view.lanes):
        component.select(wished(column), None, wish, **QUEUED)  # queued: else gradio misses that a state changed
    opened = wish.change(
        open_lane, [wish, lanes.count, lanes.shown, *lanes.head_fields],
        lanes.outputs(view), **PRIVATE,
    )  # fmt: skip
    _run(parts, opened.then(**_begin(parts)), go_on, [wish, lanes.shown])
