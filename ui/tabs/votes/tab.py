"""The Votes tab: two answers without names, a vote, then which rule was which; and what all votes say."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import gradio as gr

from storage import Choice, StorageError
from ui.jobs.admission import unbroken
from ui.jobs.queue import COMPUTES
from ui.kit.components import Strip, message_strip, strip_component, text_panel
from ui.kit.errors import error_message
from ui.kit.events import PRIVATE, QUEUED, event_data
from ui.kit.glossary import help_html
from ui.services import Services
from ui.settings.panel import FormFields, SettingsPanel
from ui.settings.rules import compact_rule
from ui.tabs.votes.round import Rounds, cast_vote, write_answers
from ui.tabs.votes.tally import tally_component, tally_now
from ui.tabs.votes.view import RoundView, reveal_strip, revealed, round_component

HINT = "Two rules answer one prompt. You see both texts without names, vote, and then learn which rule wrote which."
STARTING = "Starting; it waits for its turn …"
BROKE = message_strip("The round broke off before it began; look at what the fields say, then try again.", "failed")
SEEDS = 2**31
RULES = (("First rule", "strict"), ("Second rule", "mars"))
HEADING = (
    '<div class="mars-heading"><h2>Results</h2><p>By pair of rules. The win rate is of the second rule against the first, among '
    "votes for either, with Wilson’s 95 % interval.</p></div>"
)
_TERMS = {
    "tokens/s": "tokens_per_s",
    "τ": "tau",
    "relaxed": "relaxed_share",
    "r": "r",
    "first difference": "divergence",
}
Updates = dict[Any, Any]  # component → new value or gr.update


@dataclass(frozen=True, slots=True)
class _Parts:
    """The components that events change. ``name``: of the round that waits for a vote; ``vote``: id of the one just cast."""

    fields: FormFields
    fresh: gr.Checkbox
    write: gr.Button
    stop: gr.Button
    strip: gr.HTML
    round: gr.HTML
    after: gr.Column
    comment: gr.Textbox
    keep: gr.Button
    again: gr.Button
    kept: gr.HTML
    tally: gr.HTML
    name: gr.State
    vote: gr.State

    def closed(self) -> Updates:
        """Nothing to vote on and nothing to comment."""
        return {self.after: gr.update(visible=False), self.comment: "", self.kept: "", self.name: "", self.vote: ""}


def _help() -> str:
    """What the numbers of the reveal mean; constant text of ours."""
    terms = "".join(f"<span>{name} {help_html(key)}</span>" for name, key in _TERMS.items())
    return f'<p class="mars-vote-help"><span>What the numbers mean:</span>{terms}</p>'


def build_votes_tab(services: Services, tab: gr.Tab) -> None:
    """The tab's components and events; the results are read whenever the tab is chosen."""
    with gr.Column(elem_classes=["mars-panel", "mars-ask", "mars-votes-ask"]):
        fields, fresh = _settings(services)
        with gr.Row(elem_classes=["mars-votes-action"]):
            write = gr.Button("Write two answers", variant="primary", elem_id="votes-write")
            stop = gr.Button("Stop", variant="stop", visible=False, elem_id="votes-stop")
    strip = strip_component(message_strip(HINT), scope="votes")
    round_ = round_component()
    with gr.Column(visible=False, elem_classes=["mars-panel", "mars-votes-after"]) as after:
        gr.HTML(_help(), apply_default_css=False)
        comment = gr.Textbox(
            label="Comment on this vote (optional)", lines=2, max_lines=8, elem_id="votes-comment", max_length=10_000
        )
        with gr.Row(elem_classes=["mars-tools"]):
            keep = gr.Button("Save the comment", elem_id="votes-keep")
            again = gr.Button("Next round", variant="primary", elem_id="votes-next")
            kept = text_panel("mars-page")
    with gr.Column(elem_classes=["mars-panel"]):
        gr.HTML(HEADING, apply_default_css=False)
        tally = tally_component()
    name, vote = gr.State(""), gr.State("")
    parts = _Parts(fields, fresh, write, stop, strip, round_, after, comment, keep, again, kept, tally, name, vote)
    rounds = Rounds()
    _wire_round(services, rounds, parts)
    _wire_vote(services, rounds, parts)

    def enter(request: gr.Request) -> str:
        return _tally(services.seen_by(request))

    tab.select(enter, None, tally, **PRIVATE)


def _settings(services: Services) -> tuple[FormFields, gr.Checkbox]:
    """The fields, and whether every round gets a new seed."""
    panel = SettingsPanel(services, "votes")
    panel.prompt("What should both answers be about?")
    with gr.Row(elem_classes=["mars-votes-rules"]):
        rules = tuple(
            compact_rule(label, default, f"votes-rule-{place}") for place, (label, default) in enumerate(RULES)
        )
    panel.bar()
    panel.own_pair()
    fresh = gr.Checkbox(True, label="A new seed each round", elem_id="votes-fresh", container=False)
    panel.advanced("Advanced: system prompt, chat template, sampling, draft mode")
    panel.wire()
    return FormFields(panel.by_name, rules), fresh


def _visitor(place: Services) -> str:
    """Stop here is not Stop on Compare."""
    return f"{place.key}/votes"


def _wire_round(services: Services, rounds: Rounds, parts: _Parts) -> None:
    seed = parts.fields.by_name["seed"]

    def begin(fresh: bool, request: gr.Request) -> Updates:
        services.stops.begin(_visitor(services.seen_by(request)))
        return parts.closed() | {
            parts.write: gr.update(visible=False),
            parts.stop: gr.update(visible=True, interactive=True, value="Stop"),
            parts.strip: message_strip(STARTING, "running").html(),
            parts.round: RoundView("writing").html(),
            seed: secrets.randbelow(SEEDS) if fresh else gr.update(),
        }

    def updates(place: Services, values: tuple[Any, ...]) -> Iterator[Updates]:
        for frame in write_answers(place, rounds, parts.fields.form(values), _visitor(place)):
            changed: Updates = {parts.strip: frame.strip.html()}
            if frame.view:
                changed |= {parts.round: frame.view.html(), parts.name: frame.round}
                if frame.view.state == "revealed":  # both texts were the same, which counts
                    changed[parts.tally] = _tally(place)
            yield changed

    def broken(strip: Strip) -> Updates:
        return {parts.strip: strip.html(), parts.round: RoundView().html()}

    def write(request: gr.Request, *values: Any) -> Iterator[Updates]:
        yield from unbroken(updates(services.seen_by(request), values), broken, "votes")

    def ask_stop(request: gr.Request) -> Any:
        services.stops.request(_visitor(services.seen_by(request)))
        return gr.update(value="Stopping …", interactive=False)

    def end() -> Updates:
        return {parts.write: gr.update(visible=True), parts.stop: gr.update(visible=False)}

    cleared = [
        parts.write,
        parts.stop,
        parts.after,
        parts.comment,
        parts.kept,
        parts.name,
        parts.vote,
        parts.strip,
        parts.round,
        seed,
    ]
    pressed = gr.on(
        [parts.write.click, parts.again.click, parts.fields.by_name["prompt"].submit], begin,
        parts.fresh, cleared, trigger_mode="once", **PRIVATE,
    )  # fmt: skip
    shown = [parts.strip, parts.round, parts.name, parts.tally]
    running = pressed.then(write, parts.fields.inputs, shown, **COMPUTES, **QUEUED)
    running.failure(lambda: broken(BROKE), None, [parts.strip, parts.round], **PRIVATE)
    running.then(end, None, [parts.write, parts.stop], **PRIVATE)
    parts.stop.click(ask_stop, None, parts.stop, **PRIVATE)


def _tally(place: Services) -> str:
    return tally_now(place.store, public=place.public)


def _wire_vote(services: Services, rounds: Rounds, parts: _Parts) -> None:
    def vote(name: str, event: gr.EventData, request: gr.Request) -> Updates:
        """A second vote on the same round, or one that is none, changes nothing."""
        place, data = services.seen_by(request), event_data(event)
        if data.get("choice") not in list(Choice):
            return {parts.name: name}
        choice = Choice(data["choice"])
        try:
            cast = cast_vote(place, rounds, name, choice)
        except StorageError as error:
            sentence = error_message(error, public=place.public)
            return {parts.strip: message_strip(sentence, "failed").html(), parts.name: name}
        if cast is None:
            return {parts.name: ""}
        vote_id, round_ = cast
        return {
            parts.strip: reveal_strip(round_, choice).html(),
            parts.round: revealed(round_, choice).html(),
            parts.after: gr.update(visible=True),
            parts.name: "",
            parts.vote: vote_id,
            parts.tally: _tally(place),
        }

    def keep(vote_id: str, comment: str | None, request: gr.Request) -> Updates:
        place = services.seen_by(request)
        try:
            place.store.comment_vote(vote_id, comment or "")
        except StorageError as error:
            return {parts.kept: error_message(error, public=place.public)}
        return {parts.kept: "Saved with the vote.", parts.tally: _tally(place)}

    outputs = [parts.strip, parts.round, parts.after, parts.name, parts.vote, parts.tally]
    parts.round.select(vote, parts.name, outputs, **PRIVATE)
    parts.keep.click(keep, [parts.vote, parts.comment], [parts.kept, parts.tally], **PRIVATE)
