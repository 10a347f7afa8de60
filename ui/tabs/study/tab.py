"""What the tabs of sweeps and of studies share: a list of what is stored, one of it that is open,
its link, and a job with its Stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gradio as gr

from storage import Shared, StorageError
from ui.jobs.admission import unbroken
from ui.jobs.queue import COMPUTES
from ui.jobs.services import Services
from ui.kit.components import Strip, message_strip
from ui.kit.events import PRIVATE, QUEUED
from ui.settings.panel import SettingsPanel
from ui.sharing import share_of, wire_share
from ui.tabs.study.lists import ListsForm, estimated

STARTING = message_strip("Starting; if something else is running, this waits for it …", "running")
BROKE = message_strip("The job could not begin; check the fields, then try again.", "failed")
FAILURES = (ValueError, StorageError)
RESULT = "mars-details"
Updates = dict[Any, Any]
# with what begins there, and its inputs
Starts = Sequence[tuple[gr.Button, Callable[..., Iterator[Updates]], list[Any]]]


class StoredTab:
    """``kind``: of what is stored; ``listing``: the value of the list, of a visitor's services, the
    id that is open and its link; ``form``: what the ``fields`` ask for. ``shown`` holds the id of
    what is open, and the token of the link it is read through; or empty strings. The components are
    the subclass's; ``outputs``: what opening changes."""

    panel: SettingsPanel
    note: gr.HTML
    run: gr.Button
    stop: gr.Button
    strip: gr.HTML
    listed: gr.HTML
    sharing: gr.HTML
    fields: list[Any]
    outputs: list[Any]

    def __init__(
        self,
        services: Services,
        scope: str,
        kind: Shared,
        listing: Callable[..., str],
        form: Callable[..., ListsForm],
    ) -> None:
        self.services, self.scope, self.kind, self.listing, self.form = (
            services,
            scope,
            kind,
            listing,
            form,
        )
        self.shown = [gr.State(""), gr.State("")]

    def say(self, strip: Strip) -> Updates:
        return {self.strip: strip.html()}

    def failed(self, error: Exception) -> Updates:
        return self.say(message_strip(self.services.sentence(error), "failed"))

    def around(self, request: gr.Request, selected: str, share: str) -> Updates:
        place = self.services.seen_by(request)
        return {
            self.listed: self.listing(place, selected, share),
            self.sharing: share_of(place, self.kind, selected).html(),
        }

    def enter(
        self, request: gr.Request, selected: str, share: str, *values: Any
    ) -> tuple[str, str]:
        place = self.services.seen_by(request)
        return self.listing(place, selected, share), estimated(self.services, self.form(*values))

    def follow(
        self, request: gr.Request, job: Callable[[Services, str], Iterator[Updates]]
    ) -> Iterator[Updates]:
        """The updates of a job for whoever asks, named by who may stop it: apart from the same
        visitor's comparison."""
        place = self.services.seen_by(request)
        yield from unbroken(job(place, self.visitor(place)), self.say, self.kind)

    def visitor(self, place: Services) -> str:
        return f"{place.key}/{self.scope}"

    def wire(self, tab: gr.Tab, starts: Starts, locked: Sequence[Any] = ()) -> None:
        """``starts``: of these the first button is shown again at the end. ``locked``: fields that
        cannot be changed meanwhile."""
        buttons = [button for button, *_ in starts]
        shared = [*buttons, self.stop, *locked]

        def begin(request: gr.Request) -> Updates:
            self.services.stops.begin(self.visitor(self.services.seen_by(request)))
            return {
                **dict.fromkeys(buttons, gr.update(visible=False)),
                **dict.fromkeys(locked, gr.update(interactive=False)),
                self.stop: gr.update(visible=True, interactive=True, value="Stop"),
                **self.say(STARTING),
            }

        def ask_stop(request: gr.Request) -> Any:
            self.services.stops.request(self.visitor(self.services.seen_by(request)))
            return gr.update(value="Stopping …", interactive=False)

        def ended(request: gr.Request, selected: str, share: str) -> Updates:
            again = dict.fromkeys(locked, gr.update(interactive=True))
            again |= {self.run: gr.update(visible=True), self.stop: gr.update(visible=False)}
            return again | self.around(request, selected, share)

        for button, work, inputs in starts:
            pressed = button.click(
                begin, None, [*shared, self.strip], trigger_mode="once", **PRIVATE
            )
            running = pressed.then(work, inputs, self.outputs, **COMPUTES, **QUEUED)
            running.failure(lambda: self.say(BROKE), None, [self.strip], **PRIVATE)
            running.then(ended, self.shown, [*shared, self.listed, self.sharing], **PRIVATE)
        self.stop.click(ask_stop, None, self.stop, **PRIVATE)
        tab.select(self.enter, [*self.shown, *self.fields], [self.listed, self.note], **PRIVATE)
        gr.on(
            [each.change for each in self.fields],
            lambda *values: estimated(self.services, self.form(*values)),
            self.fields,
            self.note,
            trigger_mode="always_last",
            **PRIVATE,
        )
        self.panel.wire()
        wire_share(self.services, self.sharing)
