"""The blind vote over a small real pair, without a browser: blind until the vote, one vote a round,
and results that add up."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from display.format import number
from display.names import stored_rule_label
from evaluation.statistics import wilson
from mars_core.rules import PLAIN
from mars_core.settings import Settings, read_lane
from mars_core.types import SERVER, Status
from storage import Choice, RunStore, Search, Source, StorageError, VoteCount
from tests.streaming_server import chunk, stream_events
from tests.traces import make_trace
from tests.unit.ui.helpers import FORM, failing, keep, saved, write_answers
from ui.jobs.services import Services
from ui.kit.values import plain
from ui.public.latest import Latest
from ui.public.visitors import Visitor
from ui.tabs.votes.round import OpenRound, Round, cast_vote, question_view, revealed
from ui.tabs.votes.tally import tally

SAME = replace(FORM, rules=(read_lane(PLAIN), read_lane("strict")))  # strict loses nothing


@pytest.fixture
def rounds() -> Latest[OpenRound]:
    return Latest(9)


def frames(
    services: Services,
    rounds: Latest[OpenRound],
    form: Settings = FORM,
) -> list[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ui.tabs.votes.round.secrets.randbelow", lambda _: 1)
        return list(write_answers(services, rounds, form))


def round_of(rule: str = "mars", *, left: int = 0) -> Round:
    return Round("c" * 32, (make_trace(), make_trace(rule=rule, theta=0.5)), left)


def begin_round(services: Services, rounds: Latest[OpenRound], left: int = 0) -> None:
    """A round waits, whose runs are saved."""
    comparison = keep(services.store, source=Source.VOTE, theta=0.5)
    rounds.put(services.key, OpenRound(comparison, left))


def test_before_the_vote_no_rule_no_number_and_no_text_of_a_run_under_way_is_displayed(
    services: Services, rounds: Latest[OpenRound], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ui.jobs.driver.INTERVAL_S", 0.0)
    *before, end = frames(services, rounds)
    waiting = rounds.take(services.key)
    assert waiting and end.state == "asking"
    views = [*before, end]
    assert not any(view.lanes or view.comparison for view in views)
    traces = [run.trace for run in services.store.load(waiting.comparison).runs]
    assert {*end.texts} == {trace.text for trace in traces} and len(end.texts) == 2
    sent = "".join(view.strip.html() + view.html() for view in views)
    words = sent.lower().replace("mars-", "").replace("mars:", "")  # classes and events of the page
    secrets = ["strict", "mars", "θ", "\\u03b8", "theta", "tok/s", "relaxed", waiting.comparison]
    secrets += [*(number(trace.summary.tokens_per_s) for trace in traces)]
    assert not [each for each in secrets if each in words]
    assert len(before) > 2 and not any(view.texts for view in before)
    assert {(frame.strip.state, frame.strip.side) for frame in before} == {("running", "")}
    progress = [frame.strip.progress for frame in before]  # of both, coarse, never falling
    assert progress == sorted(progress) and 0 < max(progress) <= 1
    assert all(math.isclose(value * 20, round(value * 20)) for value in progress)
    completed = Status.COMPLETED
    assert saved(services) == [(0, 1, completed), (1, 0, completed)]  # the last lane runs first
    (record,) = services.store.find(Search()).rows
    assert record["source"] == "vote" and tuple(record["rules"]) == ("strict", "mars(theta=0.2)")


def test_a_server_answers_a_round_like_a_rule(
    services: Services, rounds: Latest[OpenRound]
) -> None:
    settings = replace(FORM, rules=(read_lane(SERVER), read_lane("strict")))
    with stream_events(chunk("A"), chunk(" fox"), chunk("", finish="stop")) as server:
        *before, end = frames(services, rounds, replace(settings, server=(server.url,)))
    assert end.state == "asking" and "A fox" in end.texts
    sent = "".join(view.strip.html() for view in (*before, end)) + end.html()
    assert server.url not in sent and "server" not in sent.lower()
    assert saved(services) == [(0, 1, Status.COMPLETED), (1, 0, Status.COMPLETED)]
    cast = cast_vote(services, rounds, Choice.LEFT)
    assert cast is not None
    (counted,) = services.store.vote_counts()
    assert f"server(model=only, url={server.url})" in (counted.left_rule, counted.right_rule)
    both = [{"rule": SERVER, "server": server.url, "server_model": name} for name in "ab"]
    *_, refused = frames(services, rounds, replace(settings, rules=tuple(map(read_lane, both))))
    assert "two rules that differ; both are Served model" in refused.strip.html()


@pytest.mark.parametrize("left", [0, 1])
def test_the_vote_is_stored_for_the_run_behind_the_side(
    services: Services, rounds: Latest[OpenRound], left: int
) -> None:
    lanes = (left, 1 - left)
    rules = [("strict", "mars(theta=0.5)")[lane] for lane in lanes]
    for choice in Choice:
        begin_round(services, rounds, left)
        cast = cast_vote(services, rounds, choice)
        assert cast is not None
        vote = next(vote for vote in services.store.votes() if vote.id == cast[0])
        runs = services.store.load(vote.comparison_id).runs
        assert [vote.choice, vote.left_rule, vote.right_rule] == [choice, *rules]
        assert [vote.left_run, vote.right_run] == [runs[lane].id for lane in lanes]
        chosen = [choice is Choice.LEFT, choice is Choice.RIGHT]
        assert [lane.title for lane in revealed(cast[1], choice).lanes] == [
            f"Answer {name}: {stored_rule_label(rule)}{', your choice' * mine}"
            for name, rule, mine in zip("AB", rules, chosen, strict=True)
        ]
    # both ways round look alike before the vote
    one, other = (question_view(round_of(left=lane)) for lane in lanes)
    assert one.texts == other.texts[::-1] and one.state == other.state


def test_a_vote_is_cast_once_and_may_be_tried_again_when_it_was_not_saved(
    services: Services, rounds: Latest[OpenRound], monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_round(services, rounds)
    with monkeypatch.context() as patch, pytest.raises(StorageError):
        patch.setattr(RunStore, "add_vote", failing("The disk is full."))
        cast_vote(services, rounds, Choice.TIE)
    assert services.store.votes() == ()
    assert cast_vote(services, rounds, Choice.LEFT) is not None
    assert cast_vote(services, rounds, Choice.RIGHT) is None
    assert [vote.choice for vote in services.store.votes()] == [Choice.LEFT]


def test_the_same_text_needs_no_vote_and_is_counted(
    services: Services, rounds: Latest[OpenRound]
) -> None:
    last = frames(services, rounds, SAME)[-1]
    assert rounds.take(services.key) is None
    assert last.state == "revealed" and last.comparison and last.strip.state == "done"
    words = plain(last.strip.parts)
    assert words.startswith("Nothing to vote on.") and "the same text, token for token." in words
    (pair,) = tally(services.store.vote_counts())
    assert (pair.first_rule, pair.second_rule, pair.votes, pair.same_text) == (
        "none",
        "strict",
        0,
        1,
    )
    assert math.isnan(pair.second_win_rate) and all(
        map(math.isnan, (pair.wilson95_low, pair.wilson95_high))
    )
    other = round_of()
    first, second = other.traces
    assert not other.same_text
    assert replace(other, traces=(first, replace(second, text=first.text))).same_text
    words = plain(revealed(other, None).strip.parts)  # as for a pair of other tokens
    assert words == "Nothing to vote on: both rules wrote the same text with different tokens."


def test_stop_saves_the_run_and_needs_no_vote(
    services: Services, rounds: Latest[OpenRound]
) -> None:
    sent = []
    for frame in write_answers(services, rounds, replace(FORM, max_new_tokens=1500)):
        sent.append(frame)
        if "Writing" in plain(frame.strip.parts):
            services.stop.request()
    assert sent[-1].strip.state == "cancelled" and rounds.take(services.key) is None
    assert not sent[-1].texts
    assert saved(services) == [(1, 0, Status.CANCELLED)]
    assert tally(services.store.vote_counts()) == ()


def test_a_round_without_a_vote_is_discarded_when_the_next_begins(
    services: Services, rounds: Latest[OpenRound]
) -> None:
    owner = "browser:a"
    owned = replace(
        services, public=True, store=services.store.of(owner), visitor=Visitor(owner, "page")
    )
    list(write_answers(owned, rounds, FORM))
    following = write_answers(owned, rounds, FORM)
    next(following)
    assert cast_vote(owned, rounds, Choice.LEFT) is None
    list(following)
    assert cast_vote(owned, rounds, Choice.LEFT) is not None and len(owned.store.votes()) == 1


def test_results_count_rules_and_not_sides() -> None:
    mars = "mars(theta=0.9)"
    counts = [
        VoteCount("strict", mars, Choice.LEFT, 1),
        VoteCount(mars, "strict", Choice.LEFT, 1),
        VoteCount("strict", mars, Choice.RIGHT, 1),
        VoteCount(mars, "strict", Choice.TIE, 1),
        VoteCount("strict", mars, Choice.BOTH_BAD, 1),
        VoteCount(mars, "typical", Choice.RIGHT, 2),
        VoteCount(mars, "strict", None, 1),
        VoteCount("strict", "typical", Choice.TIE, 2),
        VoteCount("strict", "typical", None, 3),
    ]
    pair, same, other = tally(counts)
    assert pair == ("strict", mars, 1, 2, 1, 1, 1) and other == (mars, "typical", 0, 2, 0, 0, 0)
    assert same == (
        "strict",
        "typical",
        0,
        0,
        2,
        0,
        3,
    )  # more rounds than the other with as many votes
    assert (pair.votes, pair.decided, pair.second_win_rate) == (5, 3, 2 / 3)
    assert (pair.wilson95_low, pair.wilson95_high) == wilson(2, 3)
