"""ZeroGPU: the page's runs in a process that is forked for them. With ``spaces`` itself off a Space, and with a stand-in that forks."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from mars_core.jobs import AcceleratorError, Began, Job, Wrote
from mars_core.jobs.accelerators import ZeroGpu
from mars_core.models import PairSpec
from mars_core.session import Run
from mars_core.types import Sampling, Status, StopReason
from tests.unit.ui.places import FORM, LONG, SWEEP, running, said, traces_of
from tests.zero import FORK, ForkingGpu
from ui.jobs.services import Services
from ui.settings.form import Form
from ui.tabs.compare.handlers import Wish, run_comparison, run_one_more
from ui.tabs.sweep.run import run as run_sweep
from ui.tabs.votes.round import Rounds, write_answers


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may need longer for two runs than is asked for at least."""
    monkeypatch.setattr(ZeroGpu, "MIN_S", 100)


@pytest.fixture
def gpu() -> Iterator[ForkingGpu]:
    gpu = ForkingGpu()
    yield gpu
    gpu.close()


@pytest.fixture
def place(services: Services, gpu: ForkingGpu) -> Services:
    return replace(services, accelerator=ZeroGpu(services.pool, services.catalog, gpu))


def written(place: Services, form: Form = FORM) -> list[tuple[str, tuple[int, ...], dict[str, str]]]:
    frames = list(run_comparison(place, form, "visitor"))
    assert said(frames[-1])[0] == "done", said(frames[-1])
    return [(trace.text, trace.token_ids, dict(trace.config.environment)) for trace in traces_of(place.store)]


def test_a_whole_comparison_is_one_call_and_writes_what_a_thread_writes(
    services: Services, place: Services, gpu: ForkingGpu
) -> None:
    assert written(place) == written(services)
    for trace in traces_of(place.store):  # what goes through a pipe, eight times a second
        assert len(pickle.dumps(trace.steps)) / len(trace.steps) < 20_000
    assert written(place, replace(FORM, seed=4)) == written(services, replace(FORM, seed=4))
    assert len(gpu.durations) == 2 and len(set(gpu.pids)) == 1  # the process is kept for the next call


def test_spaces_itself_changes_nothing_off_a_space(services: Services) -> None:
    import spaces

    off = replace(services, accelerator=ZeroGpu(services.pool, services.catalog, spaces.GPU))
    assert written(off) == written(services)


def test_only_a_job_and_a_path_cross(place: Services, gpu: ForkingGpu) -> None:
    written(place)
    (crossed,) = gpu.crossed
    modules = set()

    class Watching(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            modules.add(module)
            return super().find_class(module, name)

    job, path = Watching(io.BytesIO(crossed)).load()
    assert isinstance(job, Job) and isinstance(path, str) and len(crossed) < 5000
    assert modules == {"mars_core.types", "mars_core.jobs", "mars_core.models.catalog"}


def test_a_process_that_is_killed_fails_its_run_which_is_kept_and_the_next_one_works(
    place: Services, gpu: ForkingGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ui.jobs.driver.INTERVAL_S", 0.0)
    frames = run_comparison(place, LONG, "visitor")
    running(frames, 1)
    next(frames)
    gpu.kill()
    state, words = said(list(frames)[-1])
    assert state == "failed" and "was taken away: ZeroGPU worker error: GPU task aborted." in words
    (trace,) = traces_of(place.store)
    assert (trace.status, trace.stop_reason) == (Status.FAILED, StopReason.ERROR) and len(trace.steps) >= 2
    assert trace.text and "aborted" in trace.error and place.queue.running == 0
    monkeypatch.setattr("ui.jobs.driver.INTERVAL_S", 0.125)
    assert written(place) and len(set(gpu.pids)) == 2


def test_a_call_that_is_refused_says_why_and_keeps_nothing_running(services: Services) -> None:
    class Refused(Exception):
        message = 'You have exceeded your quota. <a href="https://x">Subscribe</a>\nmore'

    def gpu(**_: object) -> Any:
        def call(*_: object) -> Iterator[object]:
            raise Refused
            yield

        return lambda _: call

    place = replace(services, accelerator=ZeroGpu(services.pool, services.catalog, gpu))
    state, words = said(list(run_comparison(place, FORM, "visitor"))[-1])
    assert state == "failed" and words.endswith("You have exceeded your quota. Subscribe.") and place.queue.running == 0
    assert written(services)


@pytest.mark.parametrize("closes", [False, True])
def test_a_stop_and_a_closed_tab_free_the_slot_and_the_process(place: Services, gpu: ForkingGpu, closes: bool) -> None:
    frames = run_comparison(place, LONG, "visitor")
    running(frames, 1)
    if closes:
        frames.close()  # type: ignore[attr-defined]
    else:
        place.stops.request("visitor")
        assert said(list(frames)[-1])[0] == "cancelled"
        place.stops.begin("visitor")
    assert place.queue.running == 0
    (trace,) = traces_of(place.store)
    assert trace.status is Status.CANCELLED and 0 < len(trace.tokens) < 3900
    assert written(place) and len(set(gpu.pids)) == 1


def test_continuing_voting_and_sweeping_are_calls_too(place: Services, gpu: ForkingGpu) -> None:
    *_, shown = [frame.shown for frame in run_comparison(place, FORM, "visitor") if frame.shown]
    ended = list(run_one_more(place, shown, Wish(0, 3, 7), "visitor"))[-1]
    assert said(ended)[0] == "done" and len(gpu.durations) == 2
    rounds = list(write_answers(place, Rounds(9), FORM, "visitor"))
    assert rounds[-1].strip.state == "done" and len(gpu.durations) == 3
    assert list(run_sweep(place, SWEEP, "visitor"))[-1].strip.state == "done"
    assert len(gpu.durations) == 3 + 2 * 3  # one a run


def test_the_time_asked_for_follows_from_the_job_and_the_pace(place: Services, gpu: ForkingGpu) -> None:
    zero = place.accelerator
    assert isinstance(zero, ZeroGpu)
    written(place)
    runs, asked = 2, 24 + ZeroGpu.WARM_UP
    assert gpu.durations == [max(ZeroGpu.MIN_S, round(1.5 * runs * asked * ZeroGpu.PACE_S + 0.4)) + ZeroGpu.SET_UP_S]
    (spec,) = place.catalog
    config = traces_of(place.store)[0].config
    longest = Job(spec, (replace(config, max_new_tokens=10**6),), (0,))
    assert zero.granted(longest).seconds == ZeroGpu.MAX_S and zero.granted(replace(longest, seconds=33)).seconds == 33
    assert zero.granted(Job(spec, (config,), (0,))).seconds == ZeroGpu.MIN_S  # two small models are faster than a guess


def test_the_job_ends_before_the_time_that_was_asked_for(place: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ZeroGpu, "granted", lambda _, job: replace(job, seconds=0.3))
    state, words = said(list(run_comparison(place, LONG, "visitor"))[-1])
    assert state == "cancelled" and words.startswith("The time for one request is up.")
    assert [trace.stop_reason for trace in traces_of(place.store)] == [StopReason.DEADLINE]


def test_a_pair_that_was_not_placed_is_refused(place: Services, spec: PairSpec) -> None:
    other = replace(spec, title="Another pair")
    with pytest.raises(AcceleratorError, match="'Another pair' was not placed"):
        next(place.accelerator.run(Job(other, (), ()), place.stops.of("visitor")))
    state, words = said(list(run_comparison(place, replace(FORM, pair="custom", own_target="/x"), "visitor"))[-1])
    assert state == "failed" and "of its list only" in words


def test_a_closed_job_ends_before_the_next_step_and_not_at_the_next_event(
    place: Services, gpu: ForkingGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps, step = FORK.Value("i", 0), Run.__next__

    def counted(self: Run) -> object:
        steps.value += 1
        return step(self)

    monkeypatch.setattr(Run, "__next__", counted)  # in the process that is forked now, too
    written(place)
    config = replace(traces_of(place.store)[0].config, max_new_tokens=3900, sampling=Sampling(0.0))
    events = place.accelerator.run(Job(place.catalog[0], (config,), (0,), interval_s=3600.0), place.stops.of("visitor"))
    assert [type(next(events)) for _ in range(2)] == [Began, Wrote]
    before = steps.value
    events.close()
    assert steps.value - before < 300 and gpu.worker is not None  # of 800 or more
