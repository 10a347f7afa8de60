"""The events of Compare that compute: Compare, a new seed, a new θ, continuing from a token; and Stop.

All wait for their turn in ``ui/jobs/queue.py``; gradio holds up none of them. While the strip says that a run is under way, the style
sheet shows Stop in place of Compare and hides what would change the lanes."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import gradio as gr

from ui.jobs.admission import unbroken
from ui.jobs.pending import Pending
from ui.jobs.queue import COMPUTES
from ui.jobs.services import Services
from ui.kit.components import message_strip
from ui.kit.events import PRIVATE, QUEUED, event_data
from ui.kit.figure import figure_json
from ui.result.details import Details
from ui.result.view import ResultView, Updates
from ui.settings.fields import lane_form, lane_values, lanes_of, parse
from ui.settings.form import MOST_LANES, form_with_theta
from ui.settings.panel import read_form
from ui.tabs.compare.arrange import set_lanes
from ui.tabs.compare.ask import Ask, count_prompt
from ui.tabs.compare.frames import Frame, Shown
from ui.tabs.compare.handlers import Wish, run_comparison, run_one_more

SEEDS = 2**31  # from which a new one is drawn
RUNNING = "running"  # state of the strip
LOST = "The connection was lost before the run had ended; what was written by then is saved to History."
MOST_ENDED = 8  # comparisons whose details wait to be shown, which takes a page a moment


@dataclass(frozen=True, slots=True)
class Running:
    """State that the events share."""

    services: Services
    ask: Ask
    comparison: gr.State  # that the lanes show: a Shown or None
    view: ResultView
    ended: Pending[Details] = field(default_factory=lambda: Pending(MOST_ENDED))  # until the event after the last frame

    @property
    def streamed(self) -> list[Any]:
        """What frames change. As few as can be: for every frame the browser looks for each of them among all components of the page."""
        return [self.view.strip, *self.view.lanes, self.comparison, self.view.details.box, *self.view.margins]

    def updates(self, frame: Frame, visitor: str) -> Updates:
        """A frame as updates; details and margin maps are hidden while it runs and shown by the event after the last frame."""
        changed = self.view.update(frame.strip, frame.lanes)
        if frame.details:
            self.ended.put(visitor, frame.details)
        if frame.opens:
            changed |= {self.view.details.box: gr.update(visible=False)}
            changed |= dict.fromkeys(self.view.margins, figure_json(None))
        return changed | ({self.comparison: frame.shown} if frame.shown else {})

    def shown(self, request: gr.Request, frames: Callable[[Services], Iterator[Frame]]) -> Iterator[Updates]:
        """The frames as Gradio updates; an internal error becomes the last one, with its id."""

        def updates() -> Iterator[Updates]:
            place = self.services.seen_by(request)
            self.services.stops.begin(place.key)
            for frame in frames(place):
                yield self.updates(frame, place.key)

        return unbroken(updates(), lambda strip: self.view.update(strip, ()), "compare")

    def after(self, visitor: str, strip: str) -> Updates:
        """The details of the comparison that just ended, if there are any. ``strip`` that still says it runs: no last frame came."""
        details = self.ended.take(visitor)
        changed = self.view.show(details) if details else {}
        if f'data-state="{RUNNING}"' in strip:
            changed |= self.view.update(message_strip(LOST, "failed"), ())
        return changed | {self.ask.stop: gr.update(value="Stop", interactive=True)}


def wire_running(parts: Running) -> None:
    """Wires the buttons that start runs, and Stop."""
    ask, services, panel = parts.ask, parts.services, parts.ask.panel

    def compare(request: gr.Request, prompt: str | None, value: str | None) -> Iterator[Updates]:
        form = read_form(prompt, parse(value))
        yield from parts.shown(request, lambda place: run_comparison(place, form, place.key))

    def new_seed(value: str | None) -> str:
        return panel.value(parse(value) | {"seed": secrets.randbelow(SEEDS)})

    def ask_stop(request: gr.Request) -> Any:
        services.stops.request(services.seen_by(request).key)
        return gr.update(value="Stopping …", interactive=False)

    _run(parts, partial(gr.on, [ask.run.click, ask.prompt.submit]), compare, ask.inputs)
    again = ask.again.click(new_seed, panel.component, panel.component, **PRIVATE)
    _run(parts, again.then, compare, ask.inputs)
    ask.stop.click(ask_stop, None, ask.stop, **PRIVATE)
    _wire_wishes(parts, compare)


def _run(
    parts: Running,
    when: Callable[..., Any],
    handler: Callable[..., Iterator[Updates]],
    inputs: Sequence[Any],
    changed: Sequence[Any] = (),
    trigger_mode: str = "once",
) -> None:
    """``handler`` at the event ``when``. It waits for its turn itself, and says what broke it off. ``changed``: what it changes besides
    the result."""

    def show(strip: str, request: gr.Request) -> Updates:
        return parts.after(parts.services.seen_by(request).key, strip)

    outputs = [*parts.view.details.outputs, parts.view.strip, parts.ask.stop]
    streamed = [*parts.streamed, *changed]
    running = when(handler, list(inputs), streamed, trigger_mode=trigger_mode, **COMPUTES, **QUEUED)
    shown = running.then(show, parts.view.strip, outputs, **PRIVATE)
    shown.then(count_prompt(parts.services), parts.ask.inputs, parts.ask.tokens, **PRIVATE)


def _wire_wishes(parts: Running, compare: Callable[..., Iterator[Updates]]) -> None:
    """A click on an alternative of a token, or "Run with this θ": opens one more lane and runs it; the other lanes stay."""
    wish = gr.State(None)
    ask, view, comparison, panel = parts.ask, parts.view, parts.comparison, parts.ask.panel.component

    def continuing(column: int) -> Callable[[gr.EventData], Any]:
        def take(event: gr.EventData) -> Any:
            index, token = event_data(event).get("index"), event_data(event).get("token")
            if isinstance(index, int) and isinstance(token, int):
                return Wish(column, index, token)
            return gr.skip()

        return take

    def with_theta(event: gr.EventData) -> Any:
        theta = event_data(event).get("theta")
        return Wish(theta=float(theta)) if isinstance(theta, int | float) and 0 <= theta <= 1 else gr.skip()

    def opened(wanted: Wish, shown: Shown | None, value: str | None) -> Updates:
        """One more lane; nothing where there is no place for it: the run itself says why it cannot be."""
        values = parse(value)
        lanes = lanes_of(values)[:MOST_LANES]
        if not lanes or (shown is not None and (None in shown.lanes or len(lanes) >= MOST_LANES)):
            return {}
        if wanted.theta is None:
            fresh = lanes[min(wanted.column, len(lanes) - 1)]
        else:
            fresh = lane_values(form_with_theta([lane_form(lane) for lane in lanes], wanted.theta))
        kept = lanes[: MOST_LANES - 1]  # before the first run the last of four is replaced
        return set_lanes(ask.panel, view, values, [*kept, fresh])

    def run(
        wanted: Wish | None, shown: Shown | None, prompt: str | None, value: str | None, request: gr.Request
    ) -> Iterator[Updates]:
        if wanted is None or (shown is None and wanted.theta is None):
            yield view.update(message_strip("There is no run to continue; press Compare first.", "failed"), ())
            return
        changed = opened(wanted, shown, value)
        if changed:
            yield changed
        if shown is None:
            yield from compare(request, prompt, changed.get(panel, value))
        else:
            yield from parts.shown(request, lambda place: run_one_more(place, shown, wanted, place.key))

    for column, component in enumerate(view.lanes):
        # queued: else gradio misses that a state changed; multiple: the click that pinned the token may still be under way
        component.select(continuing(column), None, wish, trigger_mode="multiple", **QUEUED)
    view.reader.select(with_theta, None, wish, **QUEUED)
    # one that comes before gradio has seen the end of the last is not lost: it runs next
    _run(parts, wish.change, run, [wish, comparison, *ask.inputs], [panel, *view.cards], trigger_mode="always_last")
