"""A follow-up on Compare: what the lanes go on from, what is saved, and what stands above the texts."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from typing import Any

import pytest

from mars_core.types import Status
from storage import StoredComparison
from tests.unit.ui.helpers import FORM, HOSTILE, latest, run_comparison, strip_text
from ui.jobs.admission import errors_as_frames
from ui.jobs.services import Services
from ui.result.result import ended_result
from ui.settings.values import stored_settings
from ui.tabs.compare import handlers
from ui.tabs.compare.frames import DisplayedComparison, Frame

ASKED = replace(FORM, system="Be kind.")


def ask(services: Services, question: str, history: str = "own", **lanes: Any) -> Iterator[Frame]:
    stored = latest(services.store)
    shown = DisplayedComparison(stored.id, ASKED.spec(), (0, 1), **lanes)
    frames = handlers.run_follow_up(services, shown, question, history)
    return errors_as_frames(frames, Frame, "ask")


def answers(turn: StoredComparison) -> list[str]:
    return [run.trace.text for run in turn.runs]


def test_every_lane_goes_on_from_its_own_answers_with_the_system_prompt(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ui.tabs.compare.handlers.AUTO_S", math.inf)
    list(run_comparison(services, replace(ASKED, repeats=0, max_new_tokens=12)))
    frames = list(ask(services, HOSTILE))
    opening = next(frame for frame in frames if frame.turns is not None)
    list(ask(services, "The end?"))
    stored = latest(services.store)
    first, second, third = stored.turns
    assert services.store.count() == 1 and answers(first)[0] != answers(first)[1]
    assert "their answers in the turns before differ" in strip_text(frames[-1])[1]
    for lane, run in enumerate(stored.runs):
        said = [(turn.prompt.text, answers(turn)[lane]) for turn in (first, second)]
        assert [*map(tuple, run.trace.config.prompt.history)] == said
        assert run.trace.config.prompt.system == "Be kind."
        assert run.trace.config.rule == first.runs[lane].trace.config.rule
    assert [len(turn.repeats) for turn in (first, second, third)] == [4, 4, 4]
    assert opening.turns and "<img" not in opening.turns and "Turn 2." in opening.turns
    words = unescape(re.sub("<[^>]*>", " ", opening.turns))
    assert all(each.strip() in words for each in (*answers(first), ASKED.prompt))
    assert "first differs from Strict at position" in words and "its own answers" in words
    names = [each.run for frame in (opening, frames[-1]) for each in frame.lanes if each]
    assert len({*names}) == len([*filter(None, names)]) + 1  # none of an earlier turn


def test_all_lanes_go_on_from_one_and_reopen_as_they_were(services: Services) -> None:
    list(run_comparison(services, ASKED))
    *_, end = ask(services, "And Ben?", "baseline")
    stored = latest(services.store)
    first = stored.turns[0]
    assert {run.trace.config.prompt.history[0].answer for run in stored.runs} == {answers(first)[0]}
    again = ended_result(stored)
    assert "same answers" in again.turns and again.strip.parts == end.strip.parts  # type: ignore[union-attr]
    assert [lane.rows for lane in again.lanes] == [lane.rows for lane in end.lanes if lane]
    form = stored_settings(stored, services.catalog)
    assert (form.prompt, len(form.rules)) == (ASKED.prompt, 2)  # of the first turn
    later = replace(stored, earlier=())
    with pytest.raises(ValueError, match="turn 2 of a conversation whose first turn is not"):
        stored_settings(later, services.catalog)


def test_a_stopped_answer_is_marked_and_a_lane_without_one_takes_the_others(
    services: Services,
) -> None:
    list(run_comparison(services, ASKED))
    for frame in ask(services, "And Ben?"):
        if frame.lanes and frame.lanes[1] and frame.lanes[1].state == "running":
            services.stop.request()
    services.stop.begin()
    (stopped,) = (run.trace for run in latest(services.store).runs)
    assert stopped.status is Status.CANCELLED and strip_text(frame)[0] == "cancelled"
    *_, refused = ask(services, "And?")
    assert "Lane 1 has no answer to go on from in this turn" in strip_text(refused)[1]
    list(ask(services, "And?", "baseline"))
    stored = latest(services.store)
    assert {run.trace.config.prompt.history[1].answer for run in stored.runs} == {stopped.text}
    assert f"stopped after {stopped.summary.new_tokens} token" in ended_result(stored).turns


def test_what_cannot_be_asked_is_one_sentence_and_changes_nothing(services: Services) -> None:
    list(run_comparison(services, ASKED))
    for question, history, words in (
        ("  ", "own", "The prompt is empty"),
        ("And?", "mine", "history is 'mine'; it must be own or baseline"),
        ("And " * 9_000, "own", "the conversation alone does not fit into the context"),
    ):
        frames = list(ask(services, question, history))
        assert words in strip_text(frames[-1])[1]
        assert (
            not any(frame.turns is not None for frame in frames)
            and not latest(services.store).earlier
        )
