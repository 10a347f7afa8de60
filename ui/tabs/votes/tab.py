"""The Votes tab: two answers without names, a vote, then which rule was which; and what all votes say."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import gradio as gr

from storage import Choice, StorageError
from ui.jobs.admission import unbroken
from ui.jobs.queue import COMPUTES
from ui.jobs.services import Services
from ui.kit.components import Strip, message_strip, strip_component, text_panel
from ui.kit.errors import error_message
from ui.kit.events import PRIVATE, QUEUED, event_data
from ui.kit.panel import panel_component
from ui.result.pair import RunPair
from ui.settings.rules import compact_rule
from ui.tabs.settings import FormFields, SettingsPanel
from ui.tabs.votes.round import Rounds, cast_vote, write_answers
from ui.tabs.votes.tally import tally_component, tally_now
from ui.tabs.votes.view import RoundView, reveal_strip, revealed

HINT = "Two rules answer one prompt. You see both texts without names, vote, and then learn which rule wrote which."
STARTING = "Starting; it waits for its turn …"
BROKE = message_strip("The round did not start. Check the fields and try again.", "failed")
SEEDS = 2**31
RULES = (("First rule", "strict"), ("Second rule", "mars"))
HEADING = (
    '<div class="mars-heading"><h2>Results</h2><p>By pair of rules. The win rate is of the second rule against the first, among '
    "votes for either, with Wilson’s 95 % interval.</p></div>"
)
Updates = dict[Any, Any]  # component → new value or gr.update


class VotesTab:
    """The tab's components and its events. ``name``: of the round that waits for a vote; ``vote``: id of the one just cast."""

    def __init__(self, services: Services) -> None:
        self.services, self.rounds = services, Rounds()
        with gr.Column(elem_classes=["mars-panel", "mars-ask", "mars-votes-ask"]):
            self.fields, self.fresh = _settings(services)
            with gr.Row(elem_classes=["mars-votes-action"]):
                self.write = gr.Button("Write two answers", variant="primary", elem_id="votes-write")
                self.stop = gr.Button("Stop", variant="stop", visible=False, elem_id="votes-stop")
        self.seed = self.fields.by_name["seed"]
        self.strip = strip_component(message_strip(HINT), scope="votes")
        self.round = panel_component(RoundView().html(), elem_id="votes-round")
        self.pair = RunPair("votes")  # Answer A and Answer B, once they are revealed
        with gr.Column(visible=False, elem_classes=["mars-panel", "mars-votes-after"]) as self.after:
            label = "Comment on this vote (optional)"
            self.comment = gr.Textbox(label=label, lines=2, max_lines=8, elem_id="votes-comment", max_length=10_000)
            with gr.Row(elem_classes=["mars-tools"]):
                self.keep = gr.Button("Save the comment", elem_id="votes-keep")
                self.again = gr.Button("Next round", variant="primary", elem_id="votes-next")
                self.kept = text_panel("mars-page")
        with gr.Column(elem_classes=["mars-panel"]):
            gr.HTML(HEADING, apply_default_css=False)
            self.tally = tally_component()
        self.name, self.vote = gr.State(""), gr.State("")

    def wire(self, tab: gr.Tab) -> None:
        """The results are read whenever ``tab`` is chosen."""
        round_ = [self.round, *self.pair.outputs]
        buttons = [self.write, self.stop, self.after]
        cleared = [*buttons, self.comment, self.kept, self.name, self.vote, self.strip, *round_, self.seed]
        triggers = [self.write.click, self.again.click, self.fields.by_name["prompt"].submit]
        pressed = gr.on(triggers, self.on_begin, self.fresh, cleared, trigger_mode="once", **PRIVATE)
        shown = [self.strip, *round_, self.name, self.tally]
        running = pressed.then(self.on_write, self.fields.inputs, shown, **COMPUTES, **QUEUED)
        running.failure(lambda: self.broken(BROKE), None, [self.strip, *round_], **PRIVATE)
        running.then(self.on_end, None, [self.write, self.stop], **PRIVATE)
        self.stop.click(self.on_stop, None, self.stop, **PRIVATE)
        voted = [self.strip, *round_, self.after, self.name, self.vote, self.tally]
        self.round.select(self.on_vote, self.name, voted, **PRIVATE)
        self.keep.click(self.on_keep, [self.vote, self.comment], [self.kept, self.tally], **PRIVATE)
        tab.select(self.on_enter, None, self.tally, **PRIVATE)

    def on_begin(self, fresh: bool, request: gr.Request) -> Updates:
        """Nothing to vote on and nothing to comment."""
        self.services.stops.begin(_visitor(self.services.seen_by(request)))
        return {
            **dict.fromkeys((self.comment, self.kept, self.name, self.vote), ""),
            self.after: gr.update(visible=False),
            self.write: gr.update(visible=False),
            self.stop: gr.update(visible=True, interactive=True, value="Stop"),
            self.strip: message_strip(STARTING, "running").html(),
            **self.show(RoundView("writing")),
            self.seed: secrets.randbelow(SEEDS) if fresh else gr.update(),
        }

    def on_write(self, request: gr.Request, *values: Any) -> Iterator[Updates]:
        yield from unbroken(self._updates(self.services.seen_by(request), values), self.broken, "votes")

    def _updates(self, place: Services, values: tuple[Any, ...]) -> Iterator[Updates]:
        for frame in write_answers(place, self.rounds, self.fields.form(values), _visitor(place)):
            changed: Updates = {self.strip: frame.strip.html()}
            if frame.view:
                changed |= self.show(frame.view) | {self.name: frame.round}
                if frame.view.state == "revealed":  # both texts were the same, which counts
                    changed[self.tally] = _tally(place)
            yield changed

    def show(self, view: RoundView) -> Updates:
        return {self.round: view.html()} | self.pair.show(view.lanes)

    def broken(self, strip: Strip) -> Updates:
        return {self.strip: strip.html(), **self.show(RoundView())}

    def on_stop(self, request: gr.Request) -> Any:
        self.services.stops.request(_visitor(self.services.seen_by(request)))
        return gr.update(value="Stopping …", interactive=False)

    def on_end(self) -> Updates:
        return {self.write: gr.update(visible=True), self.stop: gr.update(visible=False)}

    def on_vote(self, name: str, event: gr.EventData, request: gr.Request) -> Updates:
        """A second vote on the same round, or one that is none, changes nothing."""
        place, data = self.services.seen_by(request), event_data(event)
        if data.get("choice") not in list(Choice):
            return {self.name: name}
        choice = Choice(data["choice"])
        try:
            cast = cast_vote(place, self.rounds, name, choice)
        except StorageError as error:
            sentence = error_message(error, public=place.public)
            return {self.strip: message_strip(sentence, "failed").html(), self.name: name}
        if cast is None:
            return {self.name: ""}
        vote_id, round_ = cast
        return {
            self.strip: reveal_strip(round_, choice).html(),
            **self.show(revealed(round_, choice)),
            self.after: gr.update(visible=True),
            self.name: "",
            self.vote: vote_id,
            self.tally: _tally(place),
        }

    def on_keep(self, vote_id: str, comment: str | None, request: gr.Request) -> Updates:
        place = self.services.seen_by(request)
        try:
            place.store.comment_vote(vote_id, comment or "")
        except StorageError as error:
            return {self.kept: error_message(error, public=place.public)}
        return {self.kept: "Saved with the vote.", self.tally: _tally(place)}

    def on_enter(self, request: gr.Request) -> str:
        return _tally(self.services.seen_by(request))


def build_votes_tab(services: Services, tab: gr.Tab) -> None:
    VotesTab(services).wire(tab)


def _settings(services: Services) -> tuple[FormFields, gr.Checkbox]:
    """The fields, and whether every round gets a new seed."""
    panel = SettingsPanel(services, "votes")
    panel.prompt("What should both answers be about?")
    panel.examples()
    with gr.Row(elem_classes=["mars-votes-rules"]):
        rules = [compact_rule(*rule, f"votes-rule-{place}") for place, rule in enumerate(RULES)]
    panel.bar()
    panel.own_pair()
    fresh = gr.Checkbox(True, label="A new seed each round", elem_id="votes-fresh", container=False)
    panel.advanced("Advanced: system prompt, chat template, sampling, draft mode")
    panel.wire()
    return FormFields(panel.by_name, tuple(rules)), fresh


def _visitor(place: Services) -> str:
    """Stop here is not Stop on Compare."""
    return f"{place.key}/votes"


def _tally(place: Services) -> str:
    return tally_now(place.store, public=place.public)
