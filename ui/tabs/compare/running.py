"""The events of Compare that compute: Compare, a new seed, a new θ, continuing from a token,
measuring the time; and Stop.

All wait for their turn in ``ui/jobs/queue.py``; gradio holds up none of them. While the strip says
that a run is under way, the style sheet shows Stop instead of Compare and hides what would change
the lanes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import gradio as gr

from mars_core.numbers import number_of
from ui.jobs.admission import errors_as_frames, job_errors, with_answers
from ui.jobs.queue import COMPUTES
from ui.kit.events import PRIVATE, QUEUED, Updates
from ui.public.latest import Latest
from ui.result.details import Details
from ui.settings.prompt import with_new_seed
from ui.settings.values import (
    MOST_LANES,
    lane_with_theta,
    lanes_of,
    parse,
    read_beside,
    read_settings,
)
from ui.tabs.compare import handlers
from ui.tabs.compare.arrange import CompareParts, request_json
from ui.tabs.compare.continuation import ContinuationRequest, read_continuation
from ui.tabs.compare.frames import DisplayedComparison, Frame
from ui.tabs.compare.safety import assured

LOST = "The connection was lost before the run had ended; what was written by then is saved to History."
MOST_ENDED = 8  # comparisons whose details wait to be displayed, which takes a page a moment
MOST_REQUESTS = 1000  # pages whose latest request is known
# A lane that was added is newer than an answer with the lanes of before that comes late, and older
# than what a visitor changes next: settings.js counts these in ones.
MEANWHILE = 0.5


@dataclass
class Running(CompareParts):
    """``ended``: details by page, until the event after the last frame. ``last_request``: the nonce of the
    latest request by page; ``pasted``: of one request, the saved answers of lanes that are servers."""

    ended: Latest[Details] = field(default_factory=partial(Latest[Details], MOST_ENDED))
    last_request: Latest[float] = field(default_factory=partial(Latest[float], MOST_REQUESTS))
    pasted: Mapping[int, str] = field(default_factory=dict, repr=False)

    def wire(self) -> None:
        prompt_panel, panel, continuation = self.prompt_panel, self.settings, gr.State(None)
        self._run(
            partial(gr.on, [prompt_panel.run.click, prompt_panel.prompt.submit]),
            Running.compare,
            prompt_panel.inputs,
        )
        again = prompt_panel.again.click(self.new_seed, panel, panel, **PRIVATE)
        self._run(again.then, Running.compare, prompt_panel.inputs)
        self._run(self.view.strip.select, Running.measure, [self.displayed])
        follow_up = self.follow_up
        inputs = [self.displayed, self.view.strip, follow_up.question, follow_up.history]
        asked = partial(gr.on, [follow_up.ask.click, follow_up.question.submit])
        self._run(asked, Running.ask, inputs, [follow_up.question])
        # queued: else gradio misses that a state changed; multiple: the click that pinned the token
        # may be running
        triggers = [each.select for each in (*self.view.lanes, self.view.reader)]
        gr.on(triggers, read_continuation, None, continuation, trigger_mode="multiple", **QUEUED)
        # one that comes before gradio has seen the end of the last is not lost: it runs next
        inputs, cards = [continuation, self.displayed, *prompt_panel.inputs], self.view.cards
        self._run(
            continuation.change, Running.run, inputs, [panel, *cards], trigger_mode="always_last"
        )

    def _run(
        self,
        when: Callable[..., Any],
        handler: Callable[..., Iterator[Updates]],
        inputs: Sequence[Any],
        changed: Sequence[Any] = (),
        trigger_mode: str = "once",
    ) -> None:
        """``handler``, a method, at the event ``when``, of one whose services are the visitor's, with
        keys of servers, and which has the answers that were pasted. It waits for its turn itself, and says what broke it
        off. ``changed``: what it changes besides the result, of which as little as can be: for
        every frame the browser looks for each component among all of the page."""
        view, prompt_panel = self.view, self.prompt_panel
        streamed = [view.strip, *view.lanes, self.displayed, self.note, view.details, *changed]
        streamed += [view.turns, view.counterfactual]

        def keyed(request: gr.Request, *values: Any) -> Iterator[Updates]:
            *rest, beside = values
            keys, pasted = read_beside(beside)
            services = replace(self.services.for_visitor(request), server_keys=keys)
            yield from handler(replace(self, services=services, pasted=pasted), *rest)

        running = when(
            keyed,
            [*inputs, prompt_panel.panel.beside],
            streamed,
            js=prompt_panel.panel.with_servers(len(inputs)),
            trigger_mode=trigger_mode,
            **COMPUTES,
            **QUEUED,
        )
        finished = running.then(
            self.show, view.strip, [*view.below, view.strip, prompt_panel.stop.button], **PRIVATE
        )
        finished.then(
            prompt_panel.measured,
            prompt_panel.inputs,
            [self.settings, *prompt_panel.below],
            **PRIVATE,
        )

    def compare(self, prompt: str | None, value: str | None) -> Iterator[Updates]:
        values, services = parse(value), self.services

        def frames() -> Iterator[Frame]:
            with job_errors(services):
                settings = read_settings(values, prompt)
                answering = with_answers(services, settings, self.pasted)
            yield from handlers.run_comparison(answering, settings)

        yield from self.frames(frames(), request_json(prompt, values))

    def ask(
        self,
        displayed: DisplayedComparison | None,
        strip: str,
        question: str | None,
        history: str,
    ) -> Iterator[Updates]:
        """Ask a follow-up, unless something runs; the field is empty once it was taken."""
        if displayed is None or _runs(strip):
            yield {self.view.strip: gr.skip()}
            return
        services, taken = self.services, {self.follow_up.question: ""}
        frames = handlers.run_follow_up(services, displayed, question or "", history)
        for changed in self.frames(frames):
            yield changed | (taken if self.view.turns in changed else {})

    def measure(self, displayed: DisplayedComparison | None) -> Iterator[Updates]:
        if displayed:
            yield from self.frames(handlers.measure_time(self.services, displayed))

    def new_seed(self, value: str | None) -> str:
        return self.prompt_panel.panel.value(with_new_seed(parse(value)))

    def show(self, strip: str, request: gr.Request) -> Updates:
        """Show the details of the comparison that just ended, if there are any. ``strip`` that says
        it runs: no last frame came."""
        details = self.ended.take(self.services.for_visitor(request).key)
        changed = self.view.show(details) if details else {}
        if _runs(strip):
            changed |= self.say(LOST)
        stop = self.prompt_panel.stop.button
        return changed | {stop: gr.update(value="Stop", interactive=True)}

    def frames(self, frames: Iterator[Frame], known: str = "") -> Iterator[Updates]:
        """Frames as updates; an internal error becomes the last one, with its id. Details are
        hidden while it runs and displayed by the event after the last frame. ``known``: their
        request, if not with what is known."""

        def updates() -> Iterator[Updates]:
            services = self.services
            services.stop.begin()
            for frame in frames:
                strip = frame.strip and assured(frame.strip, services, self.verdicts)
                changed = self.view.update(strip, frame.lanes, frame.turns)
                if frame.details:
                    self.ended.put(services.key, frame.details)
                if frame.turns is not None:
                    hidden = (self.view.details, self.view.counterfactual)
                    changed |= {each: gr.update(visible=False) for each in hidden}
                    changed |= {self.note: known} if known else {}
                if frame.counterfactual:
                    panel = gr.update(value=frame.counterfactual, visible=True)
                    changed |= {self.view.counterfactual: panel}
                yield changed | ({self.displayed: frame.displayed} if frame.displayed else {})

        return errors_as_frames(updates(), lambda strip: self.view.update(strip, ()), "compare")

    def run(
        self,
        wanted: ContinuationRequest | None,
        displayed: DisplayedComparison | None,
        prompt: str | None,
        value: str | None,
    ) -> Iterator[Updates]:
        """Answer a click on an alternative of a token, or "Run with this θ": opens one more lane
        and runs it; the other lanes stay. "What if it had been rejected": opens a panel below them.
        Once, though gradio reports the change of a state with every event under way meanwhile."""
        if wanted is None or (displayed is None and wanted.theta is None):
            yield self.say("There is no run to continue; press Compare first.")
            return
        services, page = self.services, self.services.key
        if self.last_request.get(page) == wanted.nonce:
            yield {self.view.strip: gr.skip()}
            return
        self.last_request.put(page, wanted.nonce)
        if wanted.rejected and displayed is not None:
            yield from self.frames(handlers.run_counterfactual(services, displayed, wanted))
            return
        changed = self.one_more(wanted, displayed, value)
        if changed:
            yield changed
        if displayed is None:
            entered = changed.get(self.settings, value)
            yield from self.compare(prompt, entered)
        else:
            yield from self.frames(handlers.run_one_more(services, displayed, wanted))

    def one_more(
        self, wanted: ContinuationRequest, displayed: DisplayedComparison | None, value: str | None
    ) -> Updates:
        """Open the lane; nothing where it has no slot: the run itself says why it cannot be."""
        values = parse(value)
        lanes = lanes_of(values)[:MOST_LANES]
        if not lanes or (
            displayed is not None and (None in displayed.lanes or len(lanes) >= MOST_LANES)
        ):
            return {}
        added = (
            lanes[min(wanted.column, len(lanes) - 1)]
            if wanted.theta is None
            else lane_with_theta(lanes, wanted.theta)
        )
        lanes_before = lanes[: MOST_LANES - 1]  # before the first run the last of four is replaced
        newer = {**values, "at": (number_of(values.get("at")) or 0) + MEANWHILE}
        return self.set_lanes(newer, [*lanes_before, added])


def _runs(strip: str) -> bool:
    """Return whether this strip says that something runs."""
    return 'data-state="running"' in strip
