"""What an address opens in Compare: a saved comparison with the settings that repeat it, or
settings alone; the stored result of an example prompt; and the address of what the lanes show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import gradio as gr

from mars_core.models import CATALOG, ModelError, PairSpec
from mars_core.settings.links import address_words
from mars_core.settings.recorded import OTHER_SAMPLER
from storage import Shared, StorageError, StoredComparison
from ui.jobs.admission import chosen_pair
from ui.jobs.driver import start_session
from ui.jobs.services import Services
from ui.kit.address import FIRST, Address, address_patch, read_address
from ui.kit.events import LATEST, PRIVATE, QUEUED, Updates, event_data
from ui.result import example
from ui.result.result import ComparisonResult, ended_result, saved_columns
from ui.settings.values import (
    FIRST_LANES,
    LINK_NAMES,
    MOST_LANES,
    EnteredValues,
    as_text,
    few,
    lanes_of,
    parse,
    read_link,
    read_settings,
    settings_values,
    stored_settings,
)
from ui.sharing import HIDDEN, READ_ONLY, share_of
from ui.tabs.compare.arrange import CompareParts, request_json
from ui.tabs.compare.frames import DisplayedComparison
from ui.tabs.compare.safety import assured

OF_COMPARE = dict.fromkeys(("comparison", "share", "runs", "turn", *LINK_NAMES), "")
LINKED = "The page’s address is a link to these settings now."
EXAMPLE = "Stored example; press Compare for a run of your own"
FILLED = "Settings from the address; press Compare to run them."


class Opening(CompareParts):
    def wire(self) -> None:
        filled = [*self.prompt_panel.inputs, *self.prompt_panel.followed, *self.view.cards]
        outputs = [*filled, *self.view.outputs, self.displayed, self.note]
        self.address.submit(
            self.open, self.displayed, outputs, trigger_mode="always_last", **QUEUED
        )
        linked = [self.address, self.view.strip]
        self.settings.input(self.link, self.prompt_panel.inputs, linked, **PRIVATE)
        chosen = [*self.view.outputs, self.view.sharing, self.displayed, self.note, self.address]
        self.prompt_panel.chips.select(self.show_example, self.settings, chosen, **LATEST)
        followed = [self.address, self.view.sharing, *self.follow_up.outputs]
        self.displayed.change(self.follow, self.displayed, followed, **QUEUED)

    def follow(self, displayed: DisplayedComparison | None, request: gr.Request) -> Updates:
        """Make the address that of the comparison that is displayed, and offer a follow-up."""
        if displayed is None or not displayed.comparison:  # no run began yet
            return {self.view.sharing: gr.skip()} | self.follow_up.show(False)
        services = self.services.for_visitor(request)
        panel = share_of(services, Shared.COMPARISON, displayed.comparison)
        updates = {
            self.address: address_of({"comparison": displayed.comparison}),
            self.view.sharing: panel.html(),
        }
        return updates | self.follow_up.show(True, _refused(services, displayed.pair))

    def link(self, event: gr.EventData, prompt: str | None, value: str | None) -> Updates:
        """Return the address of these settings, where a link to them is requested."""
        if event_data(event).get("do") != "link":
            return {self.address: gr.skip()}
        try:
            address = address_of(address_words(read_settings(parse(value), prompt)))
        except ValueError as error:
            return {self.address: gr.skip()} | self.say(str(error))
        return {self.address: address} | self.say(LINKED, "idle")

    def open(
        self, event: gr.EventData, displayed: DisplayedComparison | None, request: gr.Request
    ) -> Updates:
        """Open what the address names; the form as it was left, where the page was loaded again."""
        words = event_data(event)
        opened, entered = self._opened(words, displayed, request), words.get("entered")
        if isinstance(entered, Mapping) and (values := parse(entered.get("panel"))):
            return opened | self._fill(values, as_text(entered.get("prompt")))
        return opened

    def _opened(
        self,
        words: Mapping[str, Any],
        displayed: DisplayedComparison | None,
        request: gr.Request,
    ) -> Updates:
        address, services = read_address(words), self.services.for_visitor(request)
        if not address.comparison:
            named = any(as_text(words.get(name)) for name in LINK_NAMES)
            return self._settings(words) if named else {self.displayed: gr.skip()}
        same = displayed and displayed.comparison == address.comparison
        if same and not (address.turn or address.runs):
            return {self.displayed: gr.skip()}
        try:
            store = services.store.through(address.share) if address.share else services.store
            stored = store.load(address.comparison).at(address.turn, address.runs)
            stored = few(stored, address.runs)
        except StorageError as error:
            return self.say(services.sentence(error))
        return self._comparison(services, stored, address)

    def _comparison(
        self, services: Services, stored: StoredComparison, address: Address
    ) -> Updates:
        """Open a comparison, without the settings where they cannot be requested here."""
        result, displayed = ended_result(stored), None
        filled: Updates = {self.note: request_json(stored.turns[0].prompt.text, {})}
        notes = [READ_ONLY] if address.share else []
        if any(run.trace.config.draws_otherwise for run in stored.runs):
            notes.append(OTHER_SAMPLER)
        try:
            form = stored_settings(stored, services.catalog)
            pair, values = chosen_pair(services, form), settings_values(form)
            columns = saved_columns(stored)
            lanes = {run.lane: lane for run, lane in zip(stored.runs, values["lanes"], strict=True)}
            values["lanes"] = [{} if lane is None else lanes[lane] for lane in columns]
            filled = self._fill(values, form.prompt)
            of_texts = {name: each for name, each in values.items() if name != "repeats"}
            filled |= {self.note: request_json(form.prompt, of_texts)}
            if not (address.share or stored.later):  # those are to be read, and no more
                displayed = DisplayedComparison(stored.id, pair, columns)
        except (ValueError, ModelError) as error:
            notes.append(services.sentence(error))
        strip = replace(result.strip, side=" ".join(notes))
        views = tuple(replace(each, continues=displayed is not None) for each in result.lanes)
        result = replace(result, strip=assured(strip, services, self.verdicts), lanes=views)
        updates = self.view.display(result) | self.view.show_lanes(len(views))
        return filled | updates | {self.displayed: displayed}

    def _settings(self, words: Mapping[str, Any]) -> Updates:
        """Return the form of an address, and one sentence where it holds what cannot be."""
        values, wrong = read_link(words)
        prompt = as_text(words.get("prompt"))
        filled = self._fill(values, prompt or None)
        offered = parse(filled[self.settings])
        for name, value in values.items():
            if name != "lanes" and str(offered.get(name)) != str(value) and not wrong:
                wrong = (
                    f"{name} is {str(value)[:80]!r}, which these models or this page do not offer."
                )
        return filled | self.say(wrong or FILLED, "failed" if wrong else "idle")

    def _fill(self, values: EnteredValues, prompt: str | None) -> Updates:
        """Fill the form: without a prompt that which stands there stays; without lanes they are as
        at first."""
        lanes = lanes_of(values)[:MOST_LANES] or [{}] * FIRST_LANES
        filled = self.prompt_panel.fill({**values, "lanes": lanes}, prompt)
        return filled | self.view.show_lanes(len(lanes))

    def show_example(self, value: str | None, event: gr.EventData) -> Updates:
        """Show the stored result of the example prompt that was chosen, where there is one."""
        values, index = parse(value), event_data(event).get("index")
        known = self.prompt_panel.panel.spec(values) == CATALOG[0]
        if not known or not isinstance(index, int) or not 0 <= index < len(example.PROMPTS):
            return {self.displayed: gr.skip()}
        return self.view.display(example_result(self, index)) | {
            self.view.sharing: HIDDEN.html(),
            self.displayed: None,
            self.note: request_of(index),
            self.address: address_of({}),
        }


def example_result(parts: CompareParts, prompt: int) -> ComparisonResult:
    """Return the stored runs of an example prompt, whose strip and lanes say what they are."""
    result = ended_result(example.comparison(prompt), side=EXAMPLE)
    strip = replace(result.strip, state="example")
    return replace(
        result,
        strip=assured(strip, parts.services, parts.verdicts),
        lanes=tuple(replace(lane, state="example", continues=False) for lane in result.lanes),
    )


def request_of(prompt: int) -> str:
    """Return what the stored runs of an example prompt were asked for with, for request.js."""
    rules = [trace.config.rule for trace in example.stored(prompt)]
    lanes = [{"rule": rule.name, **rule.parameters} for rule in rules]
    return request_json(example.PROMPTS[prompt], {"lanes": lanes})


def address_of(names: Mapping[str, Any]) -> str:
    """Return the address of what Compare shows, which has no other of its names."""
    return address_patch(FIRST, {**OF_COMPARE, **names})


def _refused(services: Services, pair: PairSpec) -> str:
    """Return why this pair takes no follow-up, where that is known without loading it."""
    if pair not in services.pool.loaded():
        return ""
    try:
        start_session(services.pool.get(pair)).check_turns()
    except (ValueError, ModelError) as error:
        return services.sentence(error)
    return ""
