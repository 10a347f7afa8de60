"""A comparison as a plain generator over a small real pair; continued; when frames come, whose time
is counted, and what a page keeps."""

from __future__ import annotations

import math
import pickle
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import gradio as gr
import pytest
from markupsafe import escape

from display.format import displayable
from mars_core.accelerators import Local
from mars_core.models import BUNDLED_PAIR, ModelPool, PairSpec
from mars_core.session import Run, Session
from mars_core.settings import Settings, read_lane
from mars_core.types import Cause, Outcome, RunConfig, Status, Step, Trace
from storage import RunStore
from tests.panels import read_panel
from tests.traces import make_trace, same
from tests.unit.storage.exports import save
from tests.unit.ui.helpers import (
    FORM,
    end_of,
    failing,
    latest,
    lose_device,
    rows_of,
    run_comparison,
    run_one_more,
    strip_text,
    traces_of,
)
from ui.jobs.admission import JobError, errors_as_frames, job_errors
from ui.jobs.services import Services
from ui.kit.address import address_component
from ui.kit.components import Strip, message_strip
from ui.kit.values import plain
from ui.result import stored_runs
from ui.result.panels.tree import GONE, tree_html
from ui.result.result import ended_result, reopened
from ui.result.sentence import divergence
from ui.result.stored_runs import DisplayedRuns, StoredRuns
from ui.result.view import ResultView
from ui.settings.values import MOST_LANES, read_settings, settings_values
from ui.tabs.compare import handlers
from ui.tabs.compare.counterfactual import run_counterfactual
from ui.tabs.compare.frames import DisplayedComparison, Frame
from ui.tabs.compare.handlers import (
    ContinuationRequest,
    continuation_config,
)
from ui.tabs.compare.running import Running, read_continuation
from ui.tabs.compare.tab import CompareTab
from ui.tabs.history.list import listing
from ui.tabs.history.tab import HistoryTab
from ui.token_view.view import LaneView

THREE = (
    read_lane("strict"),
    read_lane("mars(theta=0.9)"),
    read_lane("lenience(lenience=0.5)"),
)


def last(services: Services, form: Settings) -> Frame:
    return list(run_comparison(services, form, "visitor"))[-1]


def saved(services: Services) -> list[tuple[int, int, Status]]:
    """Lane, order and status of the latest comparison's runs."""
    return [(run.lane, run.order, run.trace.status) for run in latest(services.store).runs]


@pytest.fixture(
    scope="module", params=[FORM, replace(FORM, rules=THREE)], ids=["two lanes", "three"]
)
def frames(request: pytest.FixtureRequest, lasting: Services) -> list[Frame]:
    """Of a full comparison, with every step in a separate frame."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ui.jobs.driver.INTERVAL_S", 0.0)
        return list(run_comparison(lasting, request.param, "visitor"))


def test_lanes_run_in_the_drawn_order_and_are_saved(lasting: Services, frames: list[Frame]) -> None:
    frame, lanes = frames[-1], len(frames[-1].lanes)
    assert (
        strip_text(frame)[0] == "done"
        and frame.details is not None
        and frame.details.table is not None
    )
    assert [view.state for view in frame.lanes if view] == ["completed"] * lanes
    assert saved(lasting) == [(lane, lanes - 1 - lane, Status.COMPLETED) for lane in range(lanes)]
    assert all(len(each.lanes) in (0, lanes) for each in frames)
    assert len(strip_text(frame)[1].split("\n")) == lanes - 1
    assert (
        len(frame.details.table.heads) == {2: 4, 3: 6}[lanes] and len(frame.details.traces) == lanes
    )
    margins = [
        plot
        for name, plot in frame.details.plots.items()
        if name.startswith("margins") and plot is not None
    ]
    assert len(margins) == lanes
    opening = next(frame for frame in frames if frame.lanes)
    turns = ["third", "second", "first"][-lanes:]  # as the empty lanes say it before
    assert all(view and turn in view.empty for view, turn in zip(opening.lanes, turns, strict=True))
    live = [f.lanes[0] for f in frames if f.lanes and f.lanes[0] and f.lanes[0].state == "running"]
    assert live and all(
        view and view.check.text.startswith("Self-check: Strict shifted nothing") for view in live
    )
    assert frame.details.check.state == "ok" and "Strict" in frame.details.check.text


def test_judge_runs_on_the_bundled_pair_and_elsewhere_a_sentence_says_what_it_needs(
    services: Services,
) -> None:
    lanes = read_lane("strict"), read_lane("judge(harm=0.9)")
    form = replace(FORM, rules=lanes, prompt=BUNDLED_PAIR.prompts[1], max_new_tokens=60)
    state, words = strip_text(last(services, form))
    assert state == "failed" and words.startswith("Rule judge reads the score of a classifier")
    pool = ModelPool(device="cpu", dtype="float32")
    frame = last(replace(services, pool=pool, catalog=(BUNDLED_PAIR,)), form)
    assert strip_text(frame)[0] == "done"
    _, judge = traces_of(services.store)
    assert judge.config.rule.parameters == {"harm": 0.9}
    assert any(token.outcome is Outcome.RELAXED for token in judge.tokens)


def test_repeats_run_in_turns_and_are_displayed_as_one_run_of_each_lane(services: Services) -> None:
    frames = list(run_comparison(services, replace(FORM, repeats=3), "visitor"))
    state, text = strip_text(frames[-1])
    assert state == "done" and "3 rounds" in text
    assert [view.state for view in frames[-1].lanes if view] == ["completed", "completed"]
    assert saved(services) == [(0, 1, Status.COMPLETED), (1, 0, Status.COMPLETED)]
    row = listing(services.store).rows[0]
    stored = services.store.load(row.id)
    assert [(each.lane, each.order) for each in stored.repeats] == [(1, 2), (0, 3), (1, 4), (0, 5)]
    assert len(row.run_ids) == 2 and plain(reopened(stored).strip.parts) == text
    again = reopened(stored).lanes
    assert [(view.rows, view.times) for view in frames[-1].lanes if view] == [
        (view.rows, view.times) for view in again
    ]
    spoken = [strip_text(frame)[1] for frame in frames if frame.strip]
    assert any(
        line.startswith("Run 3 of 3 of every lane, to measure the time: ") for line in spoken
    )


def test_short_runs_are_repeated_unless_a_number_is_set_but_not_long_ones_and_those_of_a_quota(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    unasked = replace(FORM, repeats=0)
    assert "3 rounds" in strip_text(last(services, unasked))[1]
    assert "not measured" in strip_text(last(services, FORM))[1]
    for where, name, value in ((handlers, "AUTO_S", 0.0), (Local, "loads", False)):
        with monkeypatch.context() as patch:
            patch.setattr(where, name, value)
            assert "not measured" in strip_text(last(services, unasked))[1], name


def test_measure_time_adds_rounds_of_all_runs_that_are_displayed(
    services: Services, displayed: DisplayedComparison
) -> None:
    """Whichever lanes are left."""
    *_, third = run_one_more(services, displayed, ContinuationRequest(theta=0.2), "visitor")
    assert third.strip and third.strip.untimed
    chosen = replace(displayed, lanes=(0, 2))
    *_, end = handlers.measure_time(services, chosen, "visitor")
    assert end.strip and not end.strip.untimed and "4 rounds" in plain(end.strip.parts)
    stored = latest(services.store)
    assert reopened(stored, chosen.lanes).strip.parts == end.strip.parts
    assert sorted(each.lane for each in stored.repeats) == [0] * 3 + [2] * 3
    with pytest.raises(JobError, match="press Compare first"):
        list(handlers.measure_time(services, replace(chosen, lanes=(0, None)), "visitor"))


def test_a_stop_while_repeating_keeps_what_was_measured(services: Services) -> None:
    frames = run_comparison(services, replace(FORM, repeats=5), "visitor")
    for frame in frames:
        if frame.strip and "Run 3 of 5" in plain(frame.strip.parts):
            services.stops.request("visitor")
    state, text = strip_text(frame)
    assert state == "done" and "2 rounds" in text


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


def test_stop_keeps_the_run_as_cancelled_starts_no_other_and_names_all(services: Services) -> None:
    frames = run_comparison(services, replace(FORM, rules=THREE, max_new_tokens=200), "visitor")
    for frame in frames:
        if frame.lanes and frame.lanes[1] and frame.lanes[1].state == "running":
            services.stops.request("visitor")
    state, words = strip_text(frame)
    assert (
        state == "cancelled"
        and "was stopped after" in words
        and words.endswith("Strict was not started.")
    )
    assert next(view.chip for view in frame.lanes if view) == "not started"
    assert saved(services) == [(1, 1, Status.CANCELLED), (2, 0, Status.COMPLETED)]
    services.stops.begin("visitor")
    assert strip_text(last(services, FORM))[0] == "done"


@pytest.mark.parametrize(
    ("change", "words"),
    rows_of(r"""
{"prompt": " \n"} -> The prompt is empty
{"k": 1.5} -> k is 1.5; it must be a whole number from 1 to 64.
{"k": null} -> k is empty
{"seed": null} -> seed is empty
{"seed": [1]} -> seed is [1]
{"system": {"a": 1}} -> system is
{"max_new_tokens": 999999} -> max_new_tokens is 999999
{"pair": "no such pair"} -> pair is 'no such pair'
{"pair": "custom"} -> The target model is empty
{"pair": "custom", "target": "/nowhere"} -> /nowhere
{"drafter": "eagle3"} -> has no EAGLE-3 head
{"drafter": "eagle3", "shape": "tree", "tree_tokens": 2.5} -> tokens of tree is '2.5'
{"drafter": "eagle3", "shape": "tree", "tree_tokens": 2, "tree_depth": null} -> depth of tree is empty
{"drafter": "eagle3", "shape": "chain", "k": null} -> k is empty
{"drafter": "none"} -> rule none and drafter none can only be used together
{"thinking": "on"} -> thinking is on, but no chat template is used; it must be left at the model's default.
{"thinking": "perhaps"} -> thinking is 'perhaps'; it must be true or false (on or off).
{"drafter": "ngram", "lanes": [{"rule": "ensemble", "weight": 0.7}]} -> needs the drafter's probabilities
{"lanes": []} -> 0 rules were chosen
{"lanes": [{"rule": "strict"}, {"rule": "mars", "theta": -1.0}]} -> theta is -1
{"lanes": [{"rule": "strict"}, {"rule": "mars", "theta": null}]} -> θ is empty
{"lanes": [{"rule": "strict"}, {"rule": "vars"}]} -> The rule is 'vars'
{"lanes": [{"rule": "strict", "drafter": "ngram", "k": 99}]} -> k is 99
"""),
)
def test_a_bad_value_gets_one_sentence_and_saves_nothing(
    services: Services, change: dict[str, Any], words: str
) -> None:
    def frames() -> Iterator[Frame]:
        with job_errors(services):
            settings = read_settings(settings_values(FORM) | change, change.get("prompt", "x"))
        yield from run_comparison(services, settings, "visitor")

    state, sentence = end_of(errors_as_frames(frames(), Frame, "compare"))
    assert (
        state == "failed" and words in sentence and sentence.endswith(".") and "\n" not in sentence
    )
    assert services.store.count() == 0


def test_a_run_that_breaks_is_stored_as_failed_with_its_reason(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_device(monkeypatch, 12)
    state, sentence = strip_text(last(services, FORM))
    assert state == "failed" and "The device is gone." in sentence and "stack" not in sentence
    assert saved(services)[0][2] is Status.FAILED


def test_a_page_that_lost_the_connection_can_run_again() -> None:
    """What came of a run stays, and its details are displayed once."""
    parts: Any = SimpleNamespace(
        stop="stop", update=lambda strip, _: {"strip": strip}, show=lambda _: {"details": 1}
    )
    running, details = Running(*[parts] * 6), cast(Any, object())
    changed: dict[Any, Any] = running.after(
        "visitor", message_strip("Run 1 of 2", "running").html()
    )
    strip: Strip = changed["strip"]
    assert strip.state == "failed" and plain(strip.parts).startswith("The connection was lost")
    assert changed["stop"]["value"] == "Stop" and changed["stop"]["interactive"]
    running.ended.put("visitor", details)
    for state, more in (
        ("done", {"details"}),
        ("done", set()),
        ("cancelled", set()),
        ("failed", set()),
    ):
        assert (
            set(running.after("visitor", message_strip("running", state).html())) == {"stop"} | more
        )


def runs_of(services: Services, displayed: DisplayedComparison) -> list[Trace]:
    return [run.trace for run in services.store.load(displayed.comparison).runs]


def go_on(
    services: Services, displayed: DisplayedComparison, column: int, index: int, token: int
) -> list[Frame]:
    return list(
        run_one_more(services, displayed, ContinuationRequest(column, index, token), "visitor")
    )


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
    mars = runs_of(services, displayed)[1]
    other = next(a.id for a in mars.tokens[5].top if a.id != mars.tokens[5].id)
    frames = go_on(services, displayed, 1, 5, other)
    runs = services.store.load(displayed.comparison).runs
    assert [(run.lane, run.order) for run in runs][2] == (2, 2)
    new = runs[2].trace
    assert new.status is Status.COMPLETED and new.config.prefix == (*mars.token_ids[:5], other)
    assert new.tokens[0].position == 6 and len(new.given) == 6
    difference = divergence(mars, new)
    assert difference is not None and (difference.position, difference.cause) == (5, Cause.CHOSEN)
    now = [frame.displayed for frame in frames if frame.displayed][-1]
    assert now.lanes == (0, 1, 2) and len(frames[-1].lanes) == 3
    assert frames[0].lanes[:2] == (None, None)
    assert frames[-1].strip is not None and len(plain(frames[-1].strip.parts).split("\n")) == 2
    # another theta is one more run, which leaves the others and keeps its given beginning
    before = [trace.token_ids for trace in runs_of(services, displayed)]
    list(run_one_more(services, now, ContinuationRequest(theta=0.4), "visitor"))
    *others, last_one = runs_of(services, displayed)
    config = last_one.config
    assert [trace.token_ids for trace in others] == before and config.prefix == new.config.prefix
    assert (config.rule.name, config.rule.parameters, config.seed) == (
        "mars",
        {"theta": 0.4},
        mars.config.seed,
    )


def test_a_relaxed_token_shows_what_would_have_followed_its_rejection(
    services: Services, displayed: DisplayedComparison
) -> None:
    """Two texts below the lanes, which stay; nothing is saved."""
    mars = runs_of(services, displayed)[1]
    relaxed = next(token for token in mars.tokens if token.outcome is Outcome.RELAXED)
    before = services.store.load(displayed.comparison)
    wanted = ContinuationRequest(1, relaxed.position, rejected=True)
    *frames, end = run_counterfactual(services, displayed, wanted, "visitor")
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
        list(run_counterfactual(services, displayed, bad, "visitor"))


@pytest.mark.parametrize(
    ("column", "index", "words"),
    [
        (0, 99, "The output position is 99"),
        (5, 0, "no run to continue"),
        (0, 23, "the last that these settings allow"),
    ],
)
def test_what_cannot_be_continued_is_one_sentence_and_changes_nothing(
    services: Services, displayed: DisplayedComparison, column: int, index: int, words: str
) -> None:
    frames = go_on(services, displayed, column, index, 5)
    assert len(frames) == 1 and frames[0].strip is not None and frames[0].strip.state == "failed"
    assert words in plain(frames[0].strip.parts)
    assert len(runs_of(services, displayed)) == 2


def test_another_theta_without_a_rule_that_has_one_is_mars_and_four_lanes_are_the_most() -> None:
    with pytest.raises(ValueError, match="All 4 lanes are in use"):
        continuation_config([make_trace()] * 4, ContinuationRequest(0, 3, 1))
    config = continuation_config([make_trace(rule="strict")], ContinuationRequest(theta=0.7))
    assert (config.rule.name, config.rule.parameters) == ("mars", {"theta": 0.7})


LONG_S = 600.0


def lane(frames: list[Frame], column: int, state: str) -> list[LaneView]:
    views = [frame.lanes[column] for frame in frames if frame.lanes]
    return [view for view in views if view and view.state == state]


def test_waiting_for_a_pair_and_loading_it_are_reported(store: RunStore, spec: PairSpec) -> None:
    ordered_services = Services(ModelPool(device="cpu", dtype="float32"), store, (spec,))
    first, *others = [
        strip_text(frame)[1]
        for frame in run_comparison(ordered_services, FORM, "visitor")
        if frame.strip
    ]
    assert first == f"Waiting for the pair {spec.title!r} …"
    assert any(sentence.startswith("Loading ") for sentence in others)


def test_the_first_frame_of_a_run_is_its_first_step_and_the_rest_comes_by_interval(
    ordered_services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pair in memory is not waited for."""
    monkeypatch.setattr("ui.jobs.driver.INTERVAL_S", LONG_S)
    started, coming = time.monotonic(), run_comparison(ordered_services, FORM, "visitor")
    frames = [next(coming)]
    assert (
        len(frames[0].lanes) == 2 and time.monotonic() - started < LONG_S / 10
    )  # the waiting lanes come first
    frames += coming
    details = frames[-1].details
    for column in (0, 1):
        (live,) = lane(frames, column, "running")
        ended = lane(frames, column, "completed")
        assert len(live.rows) == len(details.traces[column].steps[0].emitted)
        assert [len(view.rows) for view in ended] == [24, 24] and ended[0].rows[
            : len(live.rows)
        ] == live.rows


def test_the_time_of_a_run_is_without_what_its_consumer_does(
    ordered_services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a separate clock: a thousandth of a second between two looks, and what the consumer
    takes."""
    monkeypatch.setattr("ui.jobs.driver.INTERVAL_S", 0.0)
    now, pause_s, slept = [0.0], 1000.0, 0.0

    def clock() -> float:
        now[0] += 1e-3
        return now[0]

    monkeypatch.setattr("time.perf_counter", clock)
    for frame in run_comparison(ordered_services, FORM, "visitor"):
        if any(view and view.state == "running" for view in frame.lanes):
            now[0] += pause_s
            slept += pause_s
    runs = frame.details.traces.values()
    assert slept > 5 * pause_s and sum(trace.summary.wall_s for trace in runs) < pause_s
    assert all(
        trace.summary.wall_s >= trace.summary.draft_s + trace.summary.verify_s for trace in runs
    )


def test_every_lane_is_warmed_up_directly_before_its_first_run(
    ordered_services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the engine's thread, which alone computes."""
    monkeypatch.setattr(ordered_services.pool, "ran", set())
    begun, threads, warm_up, step = (
        list[tuple[str, str]](),
        set[str](),
        Session.warm_up,
        Run.__next__,
    )

    def warmed(session: Session, config: RunConfig) -> None:
        warm_up(session, config)
        begun[-1] = (config.rule.name, "warm-up")

    def watched(run: Run) -> Step:
        event = step(run)
        threads.add(threading.current_thread().name)
        if event.index == 0:
            begun.append((run.config.rule.name, "run"))
        return event

    def ran(**settings: Any) -> list[tuple[str, str]]:
        begun.clear()
        list(
            run_comparison(ordered_services, replace(FORM, max_new_tokens=4, **settings), "visitor")
        )
        return begun

    monkeypatch.setattr(Session, "warm_up", warmed)
    monkeypatch.setattr(Run, "__next__", watched)
    once = [(rule, kind) for rule in ("strict", "mars") for kind in ("warm-up", "run")]
    # the first comparison of a pair warms up for all its lanes first, too
    assert ran() == [("strict", "warm-up"), ("mars", "warm-up"), *once]
    assert ran() == once
    assert ran(repeats=2) == [*once, ("strict", "run"), ("mars", "run")]
    monkeypatch.setattr(handlers, "AUTO_S", math.inf)
    assert [ran(repeats=0).count(each) for each in once] == [1, 3, 1, 3]
    assert len(threads) == 1 and threads.pop().startswith("engine")


MOST_BYTES = 2_000  # of all that is stored of a comparison of four runs


def visitors(store: RunStore) -> StoredRuns:
    """A request is the name of an owner."""
    stub: Any = SimpleNamespace(for_visitor=lambda owner: SimpleNamespace(store=store.of(owner)))
    return StoredRuns(stub)


def save_seeds(store: RunStore, seeds: range) -> tuple[str, list[str]]:
    """A comparison of a run a seed; the ids of its runs."""
    comparison = save(store, *(make_trace(seed=seed, new_tokens=12) for seed in seeds))
    return comparison, [run.id for run in store.load(comparison).runs]


def assert_small(updates: dict[Any, Any]) -> None:
    """The values of states; gradio keeps those of no other component."""
    states = {
        component: value for component, value in updates.items() if isinstance(component, gr.State)
    }
    assert states
    data = pickle.dumps(list(states.values()))
    assert b"Trace" not in data and len(data) < MOST_BYTES
    assert b"Trace" in pickle.dumps([make_trace(new_tokens=1)])


def following(lane: int) -> gr.EventData:
    """Next, at the first step, as a browser sends it."""
    return gr.EventData(None, {"lane": str(lane), "step": "0", "by": "next"})


@pytest.mark.usefixtures("page")
def test_the_panel_of_a_relaxed_token_opens_and_goes_with_the_next_result(
    services: Services, displayed: DisplayedComparison
) -> None:
    tab = CompareTab(services, address_component())
    running, panel, none = Running(**vars(tab)), tab.view.counterfactual, cast(Any, None)
    mars = runs_of(services, displayed)[1]
    at = next(token.position for token in mars.tokens if token.outcome is Outcome.RELAXED)
    event = gr.EventData(None, {"lane": 1, "index": at, "rejected": True})
    wanted = read_continuation(event)
    *_, end = running.run(wanted, displayed, "", None, none)
    assert end[panel]["visible"] and "had been rejected" in end[panel]["value"]
    assert panel in tab.view.outputs and not tab.view.show(None)[panel]["visible"]


@pytest.mark.usefixtures("page")
def test_the_page_keeps_ids_and_draws_trees_of_what_the_store_has(services: Services) -> None:
    """Through the handlers: a comparison, one continued from it, their frames as updates, a step of
    a tree; and History."""
    tab = CompareTab(services, address_component())
    view, tree = tab.view, tab.view.tree
    frames = list(run_comparison(services, FORM, "visitor"))
    displayed = next(frame.displayed for frame in reversed(frames) if frame.displayed)
    assert b"Trace" not in pickle.dumps(displayed)
    running, request_state, none = (
        Running(**vars(tab)),
        ContinuationRequest(0, 5, 7),
        cast(Any, None),
    )
    once, again = (list(running.run(request_state, displayed, "", None, none)) for _ in range(2))
    details = running.ended.take(services.key)
    assert details and len(once) > 1 and again == [{view.strip: gr.skip()}], (
        "one event may be reported twice"
    )
    ids = {run.lane: run.id for run in services.store.load(displayed.comparison).runs}
    assert details.ids == ids and len(ids) == 3
    updates = view.show(details)
    assert_small(updates)
    assert updates[tree.displayed].runs == ids
    step = tree.choose(updates[tree.displayed], following(1), none)
    assert (
        "data-figure=" in step[tree.panel]
        and read_panel(step[tree.panel]).one("output").text == "1"
    )
    assert_small(step | {tree.displayed: updates[tree.displayed]})
    history = HistoryTab(services, address_component())
    comparison, saved_ids = save_seeds(services.store, range(4))
    updates = history.detail.opened(services.store.load(comparison), share="token")
    assert_small(updates)
    assert updates[history.detail.view.tree.displayed][:2] == (dict(enumerate(saved_ids)), "token")


@pytest.mark.usefixtures("page")
def test_run_that_was_not_saved_is_displayed_all_the_same(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RunStore, "save_run", failing("The disk is full."))
    frame = list(run_comparison(services, FORM, "visitor"))[-1]
    assert frame.strip is not None and "Not saved: The disk is full." in frame.strip.side
    details = frame.details
    assert details is not None and not any(details.ids.values())
    view = ResultView("x", message_strip(""), (LaneView(""),) * MOST_LANES, StoredRuns(services))
    tree = view.tree
    updates = view.show(details)
    assert_small(updates)
    nobody: Any = None
    assert "data-figure=" in tree.choose(updates[tree.displayed], following(0), nobody)[tree.panel]
    for seed in range(stored_runs.MOST):
        view.show(ended_result({0: make_trace(seed=seed)}, "other", [""]).details)
    later = tree.choose(updates[tree.displayed], following(0), nobody)
    assert later == {tree.panel: tree_html(message=GONE)}


def test_runs_are_read_with_the_rights_of_the_visitor(services: Services) -> None:
    anna = services.store.of("anna")
    _, (run_id,) = save_seeds(anna, range(1))
    runs, displayed = visitors(services.store), DisplayedRuns({2: run_id})
    assert runs.read("bob", displayed, 2) is None
    trace = runs.read("anna", displayed, 2)
    assert trace is not None and same(trace, make_trace(seed=0, new_tokens=12))
    assert runs.read("anna", displayed._replace(share="no such link"), 2) is trace, (
        "the one in memory"
    )
    assert (
        visitors(services.store).read("anna", displayed._replace(share="no such link"), 2) is None
    )
