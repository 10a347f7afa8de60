"""A comparison as a plain generator over a small real pair; continued; when frames come, whose time
is counted, and what a page keeps."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from markupsafe import escape

from display.format import displayable
from mars_core.settings import Settings, read_lane
from mars_core.types import Cause, Outcome, Status, Trace
from tests.unit.ui.helpers import (
    FORM,
    latest,
    run_comparison,
    run_one_more,
    saved,
    strip_text,
)
from ui.jobs.admission import JobError
from ui.jobs.services import Services
from ui.kit.components import Strip, message_strip
from ui.kit.values import plain
from ui.result.result import ended_result
from ui.result.sentence import divergence
from ui.tabs.compare import handlers
from ui.tabs.compare.continuation import ContinuationRequest, continuation_config
from ui.tabs.compare.frames import DisplayedComparison, Frame
from ui.tabs.compare.handlers import run_counterfactual
from ui.tabs.compare.running import Running
from ui.tabs.history.list import listing

THREE = (
    read_lane("strict"),
    read_lane("mars(theta=0.9)"),
    read_lane("lenience(lenience=0.5)"),
)


def last(services: Services, form: Settings) -> Frame:
    return list(run_comparison(services, form))[-1]


@pytest.fixture(
    scope="module", params=[FORM, replace(FORM, rules=THREE)], ids=["two lanes", "three"]
)
def frames(request: pytest.FixtureRequest, lasting: Services) -> list[Frame]:
    """Of a full comparison, with every step in a separate frame."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ui.jobs.driver.INTERVAL_S", 0.0)
        return list(run_comparison(lasting, request.param))


def test_lanes_run_in_the_drawn_order_and_are_saved(lasting: Services, frames: list[Frame]) -> None:
    frame, lanes = frames[-1], len(frames[-1].lanes)
    assert strip_text(frame)[0] == "done" and frame.details is not None
    assert [view.state for view in frame.lanes if view] == ["completed"] * lanes
    assert saved(lasting) == [(lane, lanes - 1 - lane, Status.COMPLETED) for lane in range(lanes)]
    assert all(len(each.lanes) in (0, lanes) for each in frames)
    assert len(strip_text(frame)[1].split("\n")) == lanes - 1
    drawn = [name for name, plot in frame.details.plots.items() if plot]
    assert sum(name.startswith("margins") for name in drawn) == len(frame.details.runs) == lanes
    opening = next(frame for frame in frames if frame.lanes)
    turns = ["third", "second", "first"][-lanes:]  # as the empty lanes say it before
    assert all(view and turn in view.empty for view, turn in zip(opening.lanes, turns, strict=True))
    live = [f.lanes[0] for f in frames if f.lanes and f.lanes[0] and f.lanes[0].state == "running"]
    assert live and all(
        view and view.check.text.startswith("Self-check: Strict shifted nothing") for view in live
    )
    assert frame.details.check.state == "ok" and "Strict" in frame.details.check.text


def test_repeats_run_in_turns_and_are_displayed_as_one_run_of_each_lane(services: Services) -> None:
    frames = list(run_comparison(services, replace(FORM, repeats=3)))
    state, text = strip_text(frames[-1])
    assert state == "done" and "3 rounds" in text
    assert [view.state for view in frames[-1].lanes if view] == ["completed", "completed"]
    assert saved(services) == [(0, 1, Status.COMPLETED), (1, 0, Status.COMPLETED)]
    row = listing(services.store).rows[0].stored
    stored = services.store.load(row["id"])
    assert [(each.lane, each.order) for each in stored.repeats] == [(1, 2), (0, 3), (1, 4), (0, 5)]
    assert len(row["run_ids"]) == 2 and plain(ended_result(stored).strip.parts) == text
    again = ended_result(stored).lanes
    assert [(view.rows, view.drafts) for view in frames[-1].lanes if view] == [
        (view.rows, view.drafts) for view in again
    ]
    spoken = [strip_text(frame)[1] for frame in frames if frame.strip]
    assert any(
        line.startswith("Run 3 of 3 of every lane, to measure the time: ") for line in spoken
    )


def test_measure_time_adds_rounds_of_all_runs_that_are_displayed(
    services: Services, displayed: DisplayedComparison
) -> None:
    """Whichever lanes are left."""
    *_, third = run_one_more(services, displayed, ContinuationRequest(theta=0.2))
    assert third.strip and third.strip.untimed
    chosen = replace(displayed, lanes=(0, 2))
    *_, end = handlers.measure_time(services, chosen)
    assert end.strip and not end.strip.untimed and "4 rounds" in plain(end.strip.parts)
    stored = latest(services.store)
    assert ended_result(stored, chosen.lanes).strip.parts == end.strip.parts
    assert sorted(each.lane for each in stored.repeats) == [0] * 3 + [2] * 3
    with pytest.raises(JobError, match="press Compare first"):
        list(handlers.measure_time(services, replace(chosen, lanes=(0, None))))


def test_streamed_deltas_spell_the_full_text(frames: list[Frame]) -> None:
    rows: list[object] = []
    ended = None
    for frame in frames:
        view = frame.lanes[0] if frame.lanes else None
        if view and view.state == "running":
            assert view.start <= len(rows)
            rows[view.start :] = view.rows
        ended = view or ended
    assert ended is not None and list(ended.rows) == rows


def test_a_page_that_lost_the_connection_can_run_again() -> None:
    """What came of a run stays, and its details are displayed once."""
    parts: Any = SimpleNamespace(
        stop=SimpleNamespace(button="stop"),
        update=lambda strip, _: {"strip": strip},
        show=lambda _: {"details": 1},
        for_visitor=lambda _: SimpleNamespace(key="visitor"),
    )
    running, nobody = Running(*[parts] * 8), cast(Any, None)
    changed: dict[Any, Any] = running.show(message_strip("Run 1 of 2", "running").html(), nobody)
    strip: Strip = changed["strip"]
    assert strip.state == "failed" and plain(strip.parts).startswith("The connection was lost")
    assert changed["stop"]["value"] == "Stop" and changed["stop"]["interactive"]
    running.ended.put("visitor", cast(Any, object()))
    for state, more in (("done", {"details"}), ("done", set()), ("failed", set())):
        shown = running.show(message_strip("running", state).html(), nobody)
        assert set(shown) == {"stop"} | more


def runs_of(services: Services, displayed: DisplayedComparison) -> list[Trace]:
    return [run.trace for run in services.store.load(displayed.comparison).runs]


def go_on(
    services: Services, displayed: DisplayedComparison, column: int, index: int, token: int
) -> list[Frame]:
    return list(run_one_more(services, displayed, ContinuationRequest(column, index, token)))


@pytest.mark.parametrize("index", [0, 7, 20])
def test_strict_continued_from_its_token_writes_its_text(
    services: Services, displayed: DisplayedComparison, index: int
) -> None:
    strict = runs_of(services, displayed)[0]
    frames = go_on(services, displayed, 0, index, strict.token_ids[index])
    again = runs_of(services, displayed)[2]
    assert (
        *again.config.prefix,
        *again.token_ids,
    ) == strict.token_ids and again.text == strict.text
    assert divergence(strict, again) is None
    assert frames[-1].strip is not None and frames[-1].strip.state == "done"


def test_another_token_opens_a_lane_that_is_saved_with_the_others(
    services: Services, displayed: DisplayedComparison
) -> None:
    traces = runs_of(services, displayed)
    other = next(a.id for a in traces[1].tokens[5].top if a.id != traces[1].tokens[5].id)
    frames = go_on(services, displayed, 1, 5, other)
    runs = services.store.load(displayed.comparison).runs
    assert [(run.lane, run.order) for run in runs][2] == (2, 2)
    new = runs[2].trace
    assert new.status is Status.COMPLETED
    assert new.config.prefix == (*traces[1].token_ids[:5], other)
    difference = divergence(traces[1], new)
    assert difference is not None and (difference.position, difference.cause) == (5, Cause.CHOSEN)
    now = [frame.displayed for frame in frames if frame.displayed][-1]
    assert now.lanes == (0, 1, 2) and len(frames[-1].lanes) == 3
    assert frames[0].lanes[:2] == (None, None)
    assert frames[-1].strip is not None and len(plain(frames[-1].strip.parts).split("\n")) == 2
    # another theta is one more run, which keeps its given beginning
    list(run_one_more(services, now, ContinuationRequest(theta=0.4)))
    config = runs_of(services, displayed)[3].config
    assert (config.prefix, config.seed) == (new.config.prefix, new.config.seed)
    assert (config.rule.name, config.rule.parameters) == ("mars", {"theta": 0.4})
    for column, index, words in (
        (0, 99, "The output position is 99"),
        (5, 0, "no run to continue"),
        (0, 23, "the last that these settings allow"),
    ):
        with pytest.raises(ValueError, match=words):
            continuation_config(traces, ContinuationRequest(column, index, 5))


def test_a_relaxed_token_shows_what_would_have_followed_its_rejection(
    services: Services, displayed: DisplayedComparison
) -> None:
    """Two texts below the lanes, which stay; nothing is saved."""
    mars = runs_of(services, displayed)[1]
    relaxed = next(token for token in mars.tokens if token.outcome is Outcome.RELAXED)
    before = services.store.load(displayed.comparison)
    wanted = ContinuationRequest(1, relaxed.position, rejected=True)
    *frames, end = run_counterfactual(services, displayed, wanted)
    assert end.strip is not None and end.strip.state == "done" and not end.lanes
    assert all(each.strip is not None and each.strip.state == "running" for each in frames)
    strict = runs_of(services, displayed)[0]
    assert strict.token_ids[: relaxed.position] == mars.token_ids[: relaxed.position]
    html = end.counterfactual
    assert "had been rejected" in html and "mean ln p" in html and "nats" in html
    assert html.count("<figure") == 2 and str(escape(displayable(strict.text[-8:]))) in html
    assert repr(services.store.load(displayed.comparison)) == repr(before)
    bad = ContinuationRequest(0, relaxed.position, rejected=True)
    with pytest.raises(JobError, match="has no relaxed token"):
        list(run_counterfactual(services, displayed, bad))
