"""When frames come, what they wait for, and whose time is counted."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import replace
from typing import Any

import pytest

from mars_core.models import ModelPool, PairSpec
from mars_core.session import Run, Session
from mars_core.types import Status
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


def test_a_pair_in_memory_is_not_waited_for(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ui.jobs.driver.INTERVAL_S", LONG_S)
    frames = run_comparison(services, FORM, "visitor")
    started = time.monotonic()
    assert len(next(frames).lanes) == 2  # the waiting lanes come first
    assert time.monotonic() - started < LONG_S / 10


def test_a_pair_that_is_not_there_yet_is_told_and_its_loading_too(store: RunStore, spec: PairSpec) -> None:
    services = Services(ModelPool(device="cpu", dtype="float32"), store, (spec,))
    said = sentences(list(run_comparison(services, FORM, "visitor")))
    assert said[0] == f"Waiting for the pair {spec.title!r} …"
    assert any(sentence.startswith("Loading ") for sentence in said[1:])


def test_the_first_frame_of_a_run_is_its_first_step_and_the_rest_comes_by_interval(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ui.jobs.driver.INTERVAL_S", LONG_S)
    frames = list(run_comparison(services, FORM, "visitor"))
    for column in (0, 1):
        (live,) = lane(frames, column, "running")
        ended = lane(frames, column, "completed")
        details = frames[-1].details
        assert details is not None
        assert len(live.rows) == len(details.traces[column].steps[0].emitted)
        assert [len(view.rows) for view in ended] == [24, 24] and ended[0].rows[: len(live.rows)] == live.rows


def warming(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether a warm-up is under way."""
    warm, warm_up = [False], Session.warm_up

    def warmed(session: Any, config: Any) -> None:
        warm[0] = True
        warm_up(session, config)
        warm[0] = False

    monkeypatch.setattr(Session, "warm_up", warmed)
    return warm


def test_a_stop_is_heard_in_the_middle_of_an_interval(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ui.jobs.driver.INTERVAL_S", LONG_S)
    step = Run.__next__

    warm = warming(monkeypatch)

    def counted(self: Run) -> object:
        found = step(self)
        if found.index == 4 and not warm[0]:
            services.stops.request("visitor")
        return found

    monkeypatch.setattr(Run, "__next__", counted)
    details = list(run_comparison(services, FORM, "visitor"))[-1].details
    assert details is not None and list(details.traces) == [0]
    assert details.traces[0].status is Status.CANCELLED and len(details.traces[0].steps) == 5


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
    assert frame.details is not None
    runs = frame.details.traces.values()
    assert slept > 5 * pause_s and sum(trace.summary.wall_s for trace in runs) < pause_s
    assert all(trace.summary.wall_s >= trace.summary.draft_s + trace.summary.verify_s for trace in runs)


def test_every_lane_is_warmed_up_directly_before_its_first_run(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services.pool, "ran", set())
    begun: list[tuple[str, str]] = []
    step, warm = Run.__next__, warming(monkeypatch)

    def watched(self: Run) -> object:
        found = step(self)
        if found.index == 0:
            begun.append((self.config.rule.name, "warm-up" if warm[0] else "run"))
        return found

    monkeypatch.setattr(Run, "__next__", watched)
    for before in (
        [("strict", "warm-up"), ("mars", "warm-up")],
        [],
    ):  # the first comparison of a pair warms up for all its lanes first, too
        list(run_comparison(services, FORM, "visitor"))
        assert begun == [*before, ("strict", "warm-up"), ("strict", "run"), ("mars", "warm-up"), ("mars", "run")]
        begun.clear()
    list(run_comparison(services, replace(FORM, repeats=2), "visitor"))
    assert begun == [
        ("strict", "warm-up"), ("strict", "run"), ("mars", "warm-up"), ("mars", "run"), ("strict", "run"), ("mars", "run"),
    ]  # fmt: skip
    begun.clear()
    monkeypatch.setattr(handlers, "AUTO_S", math.inf)
    list(run_comparison(services, replace(FORM, repeats=0), "visitor"))
    assert [begun.count((rule, kind)) for rule in ("strict", "mars") for kind in ("warm-up", "run")] == [1, 3, 1, 3]


def test_only_the_engines_thread_computes(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: set[str] = set()
    step = Run.__next__

    def watched(self: Run) -> object:
        threads.add(threading.current_thread().name)
        return step(self)

    monkeypatch.setattr(Run, "__next__", watched)
    list(run_comparison(services, FORM, "visitor"))
    assert len(threads) == 1 and threads.pop().startswith("engine")
