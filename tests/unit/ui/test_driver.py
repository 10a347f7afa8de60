"""The driver of jobs, by every way that leads to it: what is counted, what is saved, and what a job that never began leaves behind."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace

import gradio as gr
import pytest

from mars_core.jobs import AcceleratorError, Began, Ended, Event, Job, Stop, Wrote
from mars_core.models import ModelError, ModelPool
from mars_core.types import Status, StopReason, Trace
from storage import RunStore, Source
from tests.traces import same
from tests.unit.ui.places import FORM as WHOLE
from tests.unit.ui.places import failing, latest
from ui.api.endpoints import Api
from ui.jobs.driver import Batch, Started, drive
from ui.jobs.queue import Queue
from ui.jobs.services import Services
from ui.kit.components import Strip
from ui.kit.values import plain
from ui.public.limits import Limits
from ui.settings.form import read_configs
from ui.tabs.compare.frames import Shown
from ui.tabs.compare.handlers import Wish, run_comparison, run_one_more
from ui.tabs.votes.round import Rounds, write_answers

FORM = replace(WHOLE, max_new_tokens=8)
MOST = 2  # runs an hour: those of one comparison
WAYS = ("compare", "continue", "vote", "endpoint")
NO_TOKEN = 10**6


@dataclass(frozen=True)
class Scripted:
    """An accelerator that gives these events."""

    script: Callable[[Job], Iterator[Event]]
    loads: bool = True

    def run(self, job: Job, stop: Stop) -> Generator[Event, None, None]:
        del stop
        yield from self.script(job)


@pytest.fixture
def services(services: Services) -> Services:
    return replace(
        services,
        limits=(limits := Limits(runs_an_hour=MOST)),
        queue=Queue(limits),
        order=lambda lanes: list(range(lanes)),
    )


def jobs(services: Services, *batches: Batch) -> Generator[object, None, None]:
    """FORM, or these batches."""

    def read(session: object) -> list[Batch]:
        del session
        return list(batches) or [Batch(read_configs(FORM, services.pool.get(services.catalog[0])), (1, 0))]

    return drive(services, "visitor", services.catalog[0], read, runs=MOST, new_tokens=8)  # type: ignore[return-value]


def sentence(way: str, services: Services, shown: Shown, *, valid: bool = True) -> str:
    """How the job ends that is begun in this way."""
    form = FORM if valid else replace(FORM, k=0)
    strip: Strip | None
    if way == "endpoint":
        try:
            *_, last = Api(services).compare(prompt="Once", max_new_tokens=8, k=4 if valid else 0)
        except gr.Error as error:
            return str(error.message)
        return str(last["state"])
    if way == "vote":
        strip = list(write_answers(services, Rounds(9), form, services.key))[-1].strip
    elif way == "continue":
        strip = list(run_one_more(services, shown, Wish(0, 3, 7 if valid else NO_TOKEN), services.key))[-1].strip
    else:
        strip = list(run_comparison(services, form, services.key))[-1].strip
    return plain(strip.parts)


def began(job: Job, traces: tuple[Trace, ...], run: int) -> Began:
    return Began(run, job.configs[run], traces[0].prompt_ids, (), "")


@pytest.mark.parametrize("way", WAYS)
def test_a_job_of_which_no_run_began_is_not_counted_and_leaves_no_comparison(
    services: Services, shown: Shown, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For bad settings, models that cannot be loaded, an accelerator that is not to be had, a stop."""

    def refused(_: Job) -> Iterator[Event]:
        raise AcceleratorError("The GPU is not available: quota.")
        yield

    said = sentence(way, services, shown, valid=False)
    assert "K is 0" in said or str(NO_TOKEN) in said
    with monkeypatch.context() as patch:
        patch.setattr(ModelPool, "get", failing("The weights are damaged.", ModelError))
        assert "The weights are damaged." in sentence(way, services, shown)
    assert "quota" in sentence(way, replace(services, accelerator=Scripted(refused)), shown)
    assert sentence(way, replace(services, accelerator=Scripted(lambda _: iter(()))), shown)
    with services.queue.ticket(services.key, runs=MOST, tokens=1) as ticket:  # all runs of the hour are still free
        assert ticket.ready(0.0)
    assert services.store.count() == 1 and len(services.store.load(shown.comparison).runs) == 2


@pytest.mark.parametrize("way", WAYS)
def test_a_job_of_which_a_run_began_is_counted(
    services: Services, shown: Shown, traces: tuple[Trace, ...], way: str
) -> None:
    def script(job: Job) -> Iterator[Event]:
        yield began(job, traces, 0)
        yield Ended(0, Status.FAILED, StopReason.ERROR, "The device is gone.")

    said = sentence(way, replace(services, accelerator=Scripted(script)), shown)
    assert "The device is gone." in said or said == "failed"
    with pytest.raises(ValueError, match="2 runs an hour"):
        services.queue.ticket(services.key, runs=MOST, tokens=1)


@pytest.mark.parametrize("way", WAYS)
def test_a_run_that_breaks_off_is_saved_and_shown_with_what_it_wrote(
    services: Services, shown: Shown, traces: tuple[Trace, ...], way: str
) -> None:
    def script(job: Job) -> Iterator[Event]:
        yield began(job, traces, 0)
        yield Wrote(0, traces[0].steps[:2], traces[0].text, 0.1, 0, False)
        raise AcceleratorError("The process was taken away.")

    place = replace(services, accelerator=Scripted(script))
    said = sentence(way, place, shown)
    stored = services.store.load(shown.comparison) if way == "continue" else latest(services.store)
    run = max(stored.runs, key=lambda run: run.lane)
    assert "taken away" in said and run.trace.status is Status.CANCELLED and same(run.trace.steps, traces[0].steps[:2])
    if way == "compare":
        last = list(run_comparison(replace(place, queue=Queue(Limits())), FORM, "visitor"))[-1]
        assert last.strip is not None and (last.strip.state, plain(last.strip.parts)[-11:]) == ("failed", "taken away.")
        first, second = last.lanes
        assert first is not None and first.state == "cancelled" and first.rows
        assert second is not None and second.chip == "not started"


@pytest.mark.parametrize("way", ["compare", "vote", "endpoint"])
def test_what_cannot_be_saved_is_told(
    services: Services, shown: Shown, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(RunStore, "new_comparison", failing("The disk is full."))
        assert "The disk is full." in sentence(way, services, shown)
    monkeypatch.setattr(RunStore, "save_run", failing("The disk is full."))  # a comparison does so beside its sentence
    assert way == "compare" or "The disk is full." in sentence(way, services, shown)


@pytest.mark.parametrize("stops", [False, True])
def test_batches_are_one_comparison_each_and_share_the_time(
    services: Services, traces: tuple[Trace, ...], stops: bool
) -> None:
    """As a study of several prompts has it; after a stop no further one begins."""
    times: list[float] = []

    def script(job: Job) -> Iterator[Event]:
        times.append(job.seconds)
        yield began(job, traces, 0)
        if stops:
            services.stops.request("visitor")
        yield Ended(0, Status.CANCELLED, StopReason.CANCELLED, "")

    place = replace(services, accelerator=Scripted(script), limits=Limits(seconds=60))
    batch = Batch((traces[0].config,), (0,), source=Source.VOTE)
    events = list(jobs(place, batch, batch))
    comparisons = {event.comparison for event in events if isinstance(event, Started)}
    assert len(comparisons) == services.store.count() == len(times) == (1 if stops else 2)
    assert times == sorted(times, reverse=True) and times[0] <= 60
