"""The events of Compare that compute: Compare, a new seed, a new θ, continuing from a token; and Stop.

All wait for the one slot of ``ui/jobs/line.py``; gradio holds up none of them."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import gradio as gr

from ui.jobs.admission import unbroken
from ui.jobs.frames import Frame, Shown
from ui.kit.components import words
from ui.result.details import Details
from ui.result.view import ResultView, Updates
from ui.services import Services
from ui.settings.form import MOST_LANES
from ui.settings.panel import FormFields
from ui.tabs.compare.arrange import Lanes
from ui.tabs.compare.ask import Ask, count_prompt
from ui.tabs.compare.handlers import continue_run, run_comparison

ACCELERATOR = "accelerator"  # gradio's name for everything that computes
COMPUTES: Mapping[str, Any] = {"concurrency_id": ACCELERATOR, "concurrency_limit": None}
PRIVATE: Mapping[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
LARGEST_NEW_SEED = 2**31 - 1
Wish = tuple[int, int, int]  # continue: column, output position, token id


class Ended:
    """Details of comparisons that ended, by ``Services.key``, until they are shown. Safe between threads; keeps the latest ones only."""

    MOST = 32

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, Details] = OrderedDict()
        self._lock = Lock()

    def keep(self, visitor: str, details: Details) -> None:
        with self._lock:
            self._waiting[visitor] = details
            while len(self._waiting) > self.MOST:
                self._waiting.popitem(last=False)

    def take(self, visitor: str) -> Details | None:
        with self._lock:
            return self._waiting.pop(visitor, None)


@dataclass(frozen=True, slots=True)
class Running:
    """What the events need to know of each other."""

    services: Services
    ask: Ask
    fields: FormFields
    lanes: Lanes
    view: ResultView
    ended: Ended = field(default_factory=Ended)

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
            self.ended.keep(visitor, frame.details)
        return changed | (
            {self.lanes.shown: frame.shown, self.view.details.box: gr.update(visible=False)} if frame.shown else {}
        )

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

    pressed = gr.on(
        [ask.run.click, ask.by_name["prompt"].submit], _begin(parts), None, _begin_outputs(parts), queue=False,
        trigger_mode="once", **PRIVATE,
    )  # fmt: skip
    _run(parts, pressed, compare, fields.inputs)
    again = ask.again.click(
        lambda: random.randint(0, LARGEST_NEW_SEED), None, ask.by_name["seed"], queue=False, trigger_mode="once", **PRIVATE
    )  # fmt: skip
    _run(parts, _begun(parts, again), compare, fields.inputs)
    ask.stop.click(ask_stop, None, ask.stop, queue=False, **PRIVATE)
    _wire_theta(parts, compare)
    _wire_continue(parts)


def _begin(parts: Running) -> Callable[[gr.Request], Updates]:
    def begin(request: gr.Request) -> Updates:
        parts.services.stops.begin(parts.services.seen_by(request).key)
        starting = words("Starting …", "running")
        shown = {
            parts.ask.run: gr.update(visible=False),
            parts.ask.again: gr.update(interactive=False),
            parts.ask.stop: gr.update(visible=True, interactive=True, value="Stop"),
        }
        return shown | parts.lanes.lock() | parts.view.update(starting, ())

    return begin


def _begin_outputs(parts: Running) -> list[Any]:
    return [*parts.buttons, parts.view.strip]


def _begun(parts: Running, event: Any) -> Any:
    return event.then(_begin(parts), None, _begin_outputs(parts), queue=False, **PRIVATE)


def _run(parts: Running, begun: Any, handler: Callable[..., Iterator[Updates]], inputs: Sequence[Any]) -> None:
    """``handler`` after ``begun``; afterwards the buttons are as before. It waits for its turn itself, and says what broke it off."""

    def show(request: gr.Request) -> Updates:
        return parts.details(parts.services.seen_by(request).key)

    def end(count: int) -> Updates:
        shown = {parts.ask.run: gr.update(visible=True), parts.ask.stop: gr.update(visible=False)}
        return shown | {parts.ask.again: gr.update(interactive=True)} | parts.lanes.unlock(count)

    running = begun.then(handler, list(inputs), parts.streamed, **COMPUTES, **PRIVATE)
    shown = running.then(show, None, parts.view.details.outputs, queue=False, **PRIVATE)
    ended = shown.then(end, parts.lanes.count, parts.buttons, queue=False, **PRIVATE)
    ended.then(count_prompt(parts.services), parts.ask.counted, parts.ask.tokens, queue=False, **PRIVATE)


def _wire_theta(parts: Running, compare: Callable[..., Iterator[Updates]]) -> None:
    """“Run with this θ” of the bar above the lanes: θ goes to the lanes whose rule has one, else to the last as MARS."""
    heads = parts.lanes.heads

    def take(event: gr.EventData, count: int, *values: Any) -> Updates:
        theta = event._data.get("theta")
        rules = values[:: len(heads[0].inputs)][:count]
        if not isinstance(theta, int | float) or not 0 <= theta <= 1:
            return {heads[0].rule: gr.update()}
        having = {lane: rule for lane, rule in enumerate(rules) if (rule, "theta") in heads[lane].parameters}
        if not having:
            return heads[count - 1].write("mars", {"theta": float(theta)})
        return {heads[lane].parameters[rule, "theta"]: float(theta) for lane, rule in having.items()}

    taken = parts.view.reader.select(
        take, [parts.lanes.count, *parts.lanes.head_fields], parts.lanes.head_fields, queue=False, **PRIVATE
    )
    _run(parts, _begun(parts, taken), compare, parts.fields.inputs)


def _wire_continue(parts: Running) -> None:
    """A click on an alternative of a token: a wish, which opens the new lane and runs there."""
    wish = gr.State(None)
    lanes, view = parts.lanes, parts.view

    def wished(column: int) -> Any:
        def take(event: gr.EventData) -> Any:
            index, token = event._data.get("index"), event._data.get("token")
            return (
                (column, index, token, random.random())
                if isinstance(index, int) and isinstance(token, int)
                else gr.skip()
            )

        return take

    def open_lane(asked: tuple[int, int, int, float] | None, count: int, shown: Shown | None, *values: Any) -> Updates:
        if asked is None or shown is None or None in shown.lanes or count >= MOST_LANES:
            return {lanes.count: count}  # the run itself says why it cannot be
        size = len(lanes.heads[0].inputs)
        source = values[asked[0] * size : (asked[0] + 1) * size]
        return lanes.set_count(view, count + 1) | dict(zip(lanes.heads[count].inputs, source, strict=True))

    def go_on(asked: tuple[int, int, int, float] | None, shown: Shown | None, request: gr.Request) -> Iterator[Updates]:
        if asked is None or shown is None:
            yield view.update(words("There is no run to continue; press Compare first.", "failed"), ())
            return
        column, index, token, _ = asked
        yield from parts.shown(request, lambda place: continue_run(place, shown, column, index, token, place.key))

    for column, component in enumerate(view.lanes):
        component.select(
            wished(column), None, wish, **PRIVATE
        )  # queued: else gradio does not tell that a state changed
    opened = wish.change(
        open_lane, [wish, lanes.count, lanes.shown, *lanes.head_fields],
        [lanes.count, *lanes.all_buttons, *view.cards, *lanes.head_fields], queue=False, **PRIVATE,
    )  # fmt: skip
    _run(parts, _begun(parts, opened), go_on, [wish, lanes.shown])
