"""The Votes tab: two answers without names, a vote, then which rule was which; and what all votes
say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import gradio as gr

from mars_core.settings import KINDS
from storage import Choice, StorageError
from ui.jobs.admission import errors_as_frames, job_errors, with_answers
from ui.jobs.queue import COMPUTES
from ui.jobs.services import Services
from ui.jobs.stop_button import StopButton
from ui.kit.components import (
    chips_component,
    chips_html,
    message_strip,
    strip_component,
    text_panel,
)
from ui.kit.events import PRIVATE, QUEUED, Updates, event_data
from ui.kit.panel import panel_component
from ui.result.view import RunPair
from ui.settings.fields import Fields
from ui.settings.panel import SettingsPanel
from ui.settings.prompt import (
    LONGEST,
    examples_of,
    prompt_field,
    wire_examples,
    with_new_seed,
)
from ui.settings.values import EnteredValues, parse, read_beside, read_settings, seeded
from ui.tabs.votes.round import (
    MOST_OPEN,
    Rounds,
    RoundView,
    cast_vote,
    revealed,
    write_answers,
)
from ui.tabs.votes.tally import tally_html, tally_now

EMPTY = RoundView(
    message_strip(
        "Two rules answer one prompt. You see both texts without names, vote, and then see which rule wrote each."
    )
)
STARTING = RoundView(message_strip("Starting; it waits for its turn …", "running"), "writing")
BROKE = RoundView(
    message_strip("The round did not start. Check the fields and try again.", "failed")
)
HEADING = (
    '<div class="mars-heading"><h2>Results</h2><p>By pair of rules. The win rate is of the second '
    "rule against the first, among votes for either, with Wilson’s 95 % interval.</p></div>"
)


class VotesTab:
    """The tab's components and its events. ``vote``: id of the one just cast."""

    def __init__(self, services: Services) -> None:
        self.services = services = replace(services, scope="votes")
        self.rounds = Rounds(MOST_OPEN)
        with gr.Column(elem_classes=["mars-panel", "mars-prompt-panel", "mars-votes-prompt"]):
            self.prompt = prompt_field(
                services, "votes-prompt", "What should both answers be about?"
            )
            self.chips = chips_component(services.catalog[0].prompts, "votes-chips")
            self.panel = SettingsPanel(services, "votes", _describe, lanes=2)
            with gr.Row(elem_classes=["mars-votes-action"]):
                self.write = gr.Button(
                    "Write two answers", variant="primary", elem_id="votes-write"
                )
                self.stop = StopButton(services, elem_id="votes-stop", visible=False)
        self.strip = strip_component(EMPTY.strip, scope="votes")
        self.round = panel_component(EMPTY.html(), elem_id="votes-round")
        self.pair = RunPair("votes")  # Answer A and Answer B, once they are revealed
        with gr.Column(
            visible=False, elem_classes=["mars-panel", "mars-votes-after"]
        ) as self.after:
            label = "Comment on this vote (optional)"
            self.comment = gr.Textbox(
                label=label, lines=2, max_lines=8, elem_id="votes-comment", max_length=10_000
            )
            with gr.Row(elem_classes=["mars-tools"]):
                self.keep = gr.Button("Save the comment", elem_id="votes-keep")
                self.again = gr.Button("Next round", variant="primary", elem_id="votes-next")
                self.saved = text_panel("mars-page")
        with gr.Column(elem_classes=["mars-panel"]):
            gr.HTML(HEADING, apply_default_css=False)
            self.tally = panel_component(tally_html(), elem_id="votes-tally")
        self.vote = gr.State("")

    def wire(self, tab: gr.Tab) -> None:
        """Have the results read whenever ``tab`` is chosen."""
        self.panel.wire(self._follow, outputs=[self.chips])
        wire_examples(self.chips, self.prompt, self.panel)
        texts = [self.comment, self.saved, self.vote]
        buttons = [self.write, self.stop.button, self.after]
        shown = [self.strip, self.round, *self.pair.outputs, self.tally]
        changed = [*shown, *buttons, *texts, self.panel.component]
        triggers = [self.write.click, self.again.click, self.prompt.submit]
        pressed = gr.on(
            triggers, self.on_begin, self.panel.component, changed, trigger_mode="once", **PRIVATE
        )
        running = pressed.then(
            self.on_write,
            [self.prompt, self.panel.component, self.panel.beside],
            shown,
            js=self.panel.with_servers(2),
            **COMPUTES,
            **QUEUED,
        )
        running.failure(lambda: self.show(BROKE), None, shown, **PRIVATE)
        running.then(self.on_end, None, buttons, **PRIVATE)
        self.stop.wire()
        self.round.select(self.on_vote, None, changed, **PRIVATE)
        self.keep.click(
            self.on_keep, [self.vote, self.comment], [self.saved, self.tally], **PRIVATE
        )
        tab.select(self.on_enter, None, self.tally, **PRIVATE)

    def _follow(self, changed: Sequence[object], values: EnteredValues) -> Updates:
        spec = self.panel.spec(values)
        return {self.chips: chips_html(examples_of(spec))} if "pair" in changed else {}

    def on_begin(self, value: str | None, request: gr.Request) -> Updates:
        """Show nothing to vote on and nothing to comment; a new seed where one is requested."""
        values = parse(value)
        return {
            **dict.fromkeys((self.comment, self.saved, self.vote), ""),
            self.after: gr.update(visible=False),
            self.write: gr.update(visible=False),
            **self.stop.begin(request),
            **self.show(STARTING),
            self.panel.component: self.panel.value(with_new_seed(values))
            if values.get("fresh") and seeded(values)
            else gr.update(),
        }

    def on_write(
        self, prompt: str | None, value: str | None, beside: str, request: gr.Request
    ) -> Iterator[Updates]:
        keys, pasted = read_beside(beside)
        services = replace(self.services.for_visitor(request), server_keys=keys)

        def updates() -> Iterator[Updates]:
            with job_errors(services):
                settings = read_settings(parse(value), prompt)
                answering = with_answers(services, settings, pasted)
            for view in write_answers(answering, self.rounds, settings):
                counted = view.state == "revealed"  # both texts were the same
                yield self.show(view) | ({self.tally: tally_now(services)} if counted else {})

        yield from errors_as_frames(updates(), lambda strip: self.show(RoundView(strip)), "votes")

    def show(self, view: RoundView) -> Updates:
        return {
            self.strip: view.strip.html(),
            self.round: view.html(),
            **self.pair.show(view.lanes),
        }

    def on_end(self) -> Updates:
        return {self.write: gr.update(visible=True)} | self.stop.end()

    def on_vote(self, event: gr.EventData, request: gr.Request) -> Updates:
        """Save the vote: a second vote on the same round, or one that is none, changes nothing."""
        services, chosen = self.services.for_visitor(request), event_data(event).get("choice")
        choice = next((each for each in Choice if each == chosen), None)
        try:
            cast = cast_vote(services, self.rounds, choice) if choice else None
        except StorageError as error:
            return {self.strip: message_strip(services.sentence(error), "failed").html()}
        if choice is None or cast is None:
            return {self.strip: gr.skip()}
        vote_id, round_ = cast
        return {
            **self.show(revealed(round_, choice)),
            self.after: gr.update(visible=True),
            self.vote: vote_id,
            self.tally: tally_now(services),
        }

    def on_keep(self, vote_id: str, comment: str | None, request: gr.Request) -> Updates:
        services = self.services.for_visitor(request)
        try:
            services.store.comment_vote(vote_id, comment or "")
        except StorageError as error:
            return {self.saved: services.sentence(error)}
        return {self.saved: "Saved with the vote.", self.tally: tally_now(services)}

    def on_enter(self, request: gr.Request) -> str:
        return tally_now(self.services.for_visitor(request))


def _describe(fields: Fields) -> None:
    fields.run(LONGEST, {name: kind for name, kind in KINDS.items() if name != "repeats"})
    fields.add("fresh", "check", "A new seed each round", True, section="round")
