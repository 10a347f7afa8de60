"""When frames come, what they wait for, and whose time is counted."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from mars_core.models import ModelPool, PairSpec
from mars_core.session import Run, Session
from mars_core.types import Step
from storage import RunStore
from tests.unit.ui.places import FORM
from ui.jobs.services import Services
from ui.kit.values import plain
from ui.tabs.compare import handlers
from ui.tabs.compare.frames import Frame
from ui.tabs.compare.handlers import run_comparison
from ui.token_view.view import LaneView

LONG_S = 600.0


@pytest.fixture
def services(services: Services) -> Services:
    return replace(services, order=lambda lanes: list(range(lanes)))


def sentences(frames: list[Frame]) -> list[str]:
    return [plain(frame.strip.parts) for frame in frames if frame.strip]


def lane(frames: list[Frame], column: int, state: str) -> list[LaneView]:
    views = [frame.lanes[column] for frame in frames if frame.lanes]
    return [view for view in views if view and view.state == state]


def test_a_pair_that_is_not_there_yet_is_told_and_its_loading_too(store: RunStore, spec: PairSpec) -> None:
    services = Services(ModelPool(device="cpu", dtype="float32"), store, (spec,))
    said = sentences(list(run_comparison(services, FORM, "visitor")))
    assert said[0] == f"Waiting for the pair {spec.title!r} …"
    assert any(sentence.startswith("Loading ") for sentence in said[1:])


def test_the_first_frame_of_a_run_is_its_first_step_and_the_rest_comes_by_interval(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pair in memory is not waited for."""
    monkeypatch.setattr("ui.jobs.driver.INTERVAL_S", LONG_S)
    started, coming = time.monotonic(), run_comparison(services, FORM, "visitor")
    frames = [next(coming)]
    assert len(frames[0].lanes) == 2 and time.monotonic() - started < LONG_S / 10  # the waiting lanes come first
    frames += coming
    details = frames[-1].details
    for column in (0, 1):
        (live,) = lane(frames, column, "running")
        ended = lane(frames, column, "completed")
        assert len(live.rows) == len(details.traces[column].steps[0].emitted)
        assert [len(view.rows) for view in ended] == [24, 24] and ended[0].rows[: len(live.rows)] == live.rows


def watch(monkeypatch: pytest.MonkeyPatch, see: Callable[[Run, Step, bool], object]) -> None:
    """``see`` gets every step that is computed, with its run and whether that is a warm-up."""
    warm, warm_up, step = [False], Session.warm_up, Run.__next__

    def warmed(session: Any, config: Any) -> None:
        warm[0] = True
        warm_up(session, config)
        warm[0] = False

    def watched(self: Run) -> Step:
        found = step(self)
        see(self, found, warm[0])
        return found

    monkeypatch.setattr(Session, "warm_up", warmed)
    monkeypatch.setattr(Run, "__next__", watched)


def test_the_time_of_a_run_is_without_what_its_consumer_does(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a clock of its own: a thousandth of a second between two looks, and what the consumer takes."""
    monkeypatch.setattr("ui.jobs.driver.INTERVAL_S", 0.0)
    now, pause_s, slept = [0.0], 1000.0, 0.0

    def clock() -> float:
        now[0] += 1e-3
        return now[0]

    monkeypatch.setattr("time.perf_counter", clock)
    for frame in run_comparison(services, FORM, "visitor"):
        if any(view and view.state == "running" for view in frame.lanes):
            now[0] += pause_s
            slept += pause_s
    runs = frame.details.traces.values()
    assert slept > 5 * pause_s and sum(trace.summary.wall_s for trace in runs) < pause_s
    assert all(trace.summary.wall_s >= trace.summary.draft_s + trace.summary.verify_s for trace in runs)


def test_every_lane_is_warmed_up_directly_before_its_first_run(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the engine's thread, which alone computes."""
    monkeypatch.setattr(services.pool, "ran", set())
    begun, threads = list[tuple[str, str]](), set[str]()

    def see(run: Run, step: Step, warm: bool) -> None:
        threads.add(threading.current_thread().name)
        if step.index == 0:
            begun.append((run.config.rule.name, "warm-up" if warm else "run"))

    def ran(**settings: Any) -> list[tuple[str, str]]:
        begun.clear()
        list(run_comparison(services, replace(FORM, **settings), "visitor"))
        return begun

    watch(monkeypatch, see)
    once = [(rule, kind) for rule in ("strict", "mars") for kind in ("warm-up", "run")]
    # the first comparison of a pair warms up for all its lanes first, too
    assert ran() == [("strict", "warm-up"), ("mars", "warm-up"), *once]
    assert ran() == once
    assert ran(repeats=2) == [*once, ("strict", "run"), ("mars", "run")]
    monkeypatch.setattr(handlers, "AUTO_S", math.inf)
    assert [ran(repeats=0).count(each) for each in once] == [1, 3, 1, 3]
    assert len(threads) == 1 and threads.pop().startswith("engine")
