"""The driver of jobs, by every way that leads to it, and the queue before the one slot: what is
counted, saved, refused and told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace

import gradio as gr
import pytest

from mars_core.jobs import AcceleratorError, Began, Ended, Job, JobEvent, Stop, Wrote
from mars_core.models import ModelError, ModelPool
from mars_core.types import Status, StopReason, Trace
from tests.traces import same
from tests.unit.ui.helpers import FORM as LONG_FORM
from tests.unit.ui.helpers import failing, latest, run_comparison, run_one_more, write_answers
from ui.api.endpoints import Api
from ui.jobs.queue import MOST_PASSED, Queue, Ticket
from ui.jobs.services import Services
from ui.kit.components import Strip
from ui.kit.values import plain
from ui.public.limits import PRIVATE_LIMITS, Limits
from ui.tabs.compare.continuation import ContinuationRequest
from ui.tabs.compare.frames import DisplayedComparison
from ui.tabs.votes.round import Rounds

FORM = replace(LONG_FORM, max_new_tokens=8)
MOST = 2  # runs an hour: those of one comparison
WAYS = ("compare", "continue", "vote", "endpoint")
NO_TOKEN = 10**6


@dataclass(frozen=True)
class Scripted:
    """An accelerator that gives these events."""

    script: Callable[[Job], Iterator[JobEvent]]
    loads: bool = True

    def run(self, job: Job, stop: Stop) -> Generator[JobEvent, None, None]:
        del stop
        yield from self.script(job)


@pytest.fixture
def services(ordered_services: Services) -> Services:
    limits = Limits(runs_an_hour=MOST)
    return replace(ordered_services, limits=limits, queue=Queue(limits))


def sentence(
    way: str, services: Services, displayed: DisplayedComparison, *, valid: bool = True
) -> str:
    """How the job ends that is begun in this way."""
    form = FORM if valid else replace(FORM, max_new_tokens=10**5)
    strip: Strip | None
    if way == "endpoint":
        try:
            *_, last = Api(services).compare(prompt="Once", max_new_tokens=8 if valid else 10**5)
        except gr.Error as error:
            return str(error.message)
        return str(last["state"])
    if way == "vote":
        strip = list(write_answers(services, Rounds(9), form))[-1].strip
    elif way == "continue":
        strip = list(
            run_one_more(
                services,
                displayed,
                ContinuationRequest(0, 3, 7 if valid else NO_TOKEN),
            )
        )[-1].strip
    else:
        strip = list(run_comparison(services, form))[-1].strip
    return plain(strip.parts)


def began(job: Job, traces: tuple[Trace, ...], run: int) -> Began:
    return Began(run, job.configs[run], traces[0].prompt_ids, (), "")


@pytest.mark.parametrize("way", WAYS)
def test_a_job_of_which_no_run_began_is_not_counted_and_leaves_no_comparison(
    services: Services, displayed: DisplayedComparison, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For bad settings, models that cannot be loaded, an accelerator that is not to be had, a
    stop."""

    def refused(_: Job) -> Iterator[JobEvent]:
        raise AcceleratorError("The GPU is not available: quota.")
        yield

    message = sentence(way, services, displayed, valid=False)
    assert "max_new_tokens is 100000" in message or str(NO_TOKEN) in message
    with monkeypatch.context() as patch:
        patch.setattr(ModelPool, "get", failing("The weights are damaged.", ModelError))
        assert "The weights are damaged." in sentence(way, services, displayed)
    assert "quota" in sentence(way, replace(services, accelerator=Scripted(refused)), displayed)
    assert sentence(way, replace(services, accelerator=Scripted(lambda _: iter(()))), displayed)
    with services.queue.ticket(
        services.stop.key, runs=MOST, tokens=1
    ) as ticket:  # all runs of the hour are still free
        assert ticket.ready(0.0)
    assert services.store.count() == 1 and len(services.store.load(displayed.comparison).runs) == 2


@pytest.mark.parametrize("status", [Status.CANCELLED, Status.FAILED])
@pytest.mark.parametrize("way", WAYS)
def test_a_run_that_breaks_off_is_counted_saved_and_displayed_with_what_it_wrote(
    services: Services,
    displayed: DisplayedComparison,
    traces: tuple[Trace, ...],
    way: str,
    status: Status,
) -> None:
    def script(job: Job) -> Iterator[JobEvent]:
        yield began(job, traces, 0)
        yield Wrote(0, traces[0].steps[:2], traces[0].text, 0.1, 0, False)
        if status is Status.CANCELLED:
            raise AcceleratorError("The process was taken away.")
        yield Ended(0, status, StopReason.ERROR, "The process was taken away.")

    scripted = replace(services, accelerator=Scripted(script))
    message = sentence(way, scripted, displayed)
    stored = (
        services.store.load(displayed.comparison) if way == "continue" else latest(services.store)
    )
    run = max(stored.runs, key=lambda run: run.lane)
    assert "taken away" in message or message == status == "failed"
    assert run.trace.status is status and same(run.trace.steps, traces[0].steps[:2])
    with pytest.raises(ValueError, match="2 runs an hour"):
        services.queue.ticket(services.stop.key, runs=MOST, tokens=1)
    if way == "compare":
        last = list(run_comparison(replace(scripted, queue=Queue(Limits())), FORM))[-1]
        assert (
            last.strip is not None
            and last.strip.state == "failed"
            and "taken away" in plain(last.strip.parts)
        )
        first, second = last.lanes
        assert first is not None and first.state == status and first.rows
        assert second is not None and second.chip == "not started"


PUBLIC = Limits(waiting=3, runs_an_hour=10, seconds=120)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def enter(queue: Queue, owner: str, tokens: int = 1000, runs: int = 1) -> Ticket:
    return queue.ticket(owner, runs=runs, tokens=tokens)


def test_whoever_comes_again_is_behind_those_who_wait_but_not_for_ever() -> None:
    queue = Queue(PRIVATE_LIMITS)
    tickets = [enter(queue, "a"), enter(queue, "b"), enter(queue, "a")]
    order = []
    for late in range(MOST_PASSED + 5):
        tickets.append(enter(queue, f"late {late}"))
        (now,) = [ticket for ticket in tickets if ticket.ready(0.0)]
        order.append(now.owner)
        queue.leave(now)
    assert order[:3] == ["a", "b", "late 0"] and order.index("a", 1) == 2 + MOST_PASSED


def test_where_each_stands_and_how_long_it_takes(clock: Clock) -> None:
    queue = Queue(PUBLIC, clock, pace_s=0.02)
    tickets = [enter(queue, owner) for owner in ("a", "b", "c")]  # 20 s each
    assert [ticket.message() for ticket in tickets[1:]] == [
        "Waiting: 1 before you; about 20 s.",
        "Waiting: 2 before you; about 40 s.",
    ]
    clock.now += 15
    assert tickets[2].message() == "Waiting: 2 before you; about 30 s."
    clock.now += 100  # longer than expected: what is left of it is nothing that anybody knows
    assert tickets[1].message() == "Waiting: 1 before you; a few seconds."
    queue.leave(tickets[0])
    assert tickets[2].message().startswith("Waiting: 1 before you; about ") and queue.pace_s > 0.02
    learnt = Queue(PRIVATE_LIMITS, clock, pace_s=1.0)
    for _ in range(30):
        with enter(learnt, "a", tokens=100):
            clock.now += 0.5
    assert 0.005 <= learnt.pace_s < 0.0055


def test_a_full_queue_says_when_to_come_back(clock: Clock) -> None:
    queue = Queue(PUBLIC, clock, pace_s=0.06)
    tickets = [enter(queue, owner) for owner in "abcd"]
    with pytest.raises(
        ValueError, match=r"^3 visitors are waiting already; try again in about 4 min\.$"
    ):
        enter(queue, "e")
    queue.leave(tickets[2])
    enter(queue, "e")


def test_runs_an_hour_are_counted_by_owner_and_come_back(clock: Clock) -> None:
    queue = Queue(PUBLIC, clock)
    for runs in (4, 4):
        with enter(queue, "a", runs=runs):
            clock.now += 600
    with pytest.raises(ValueError, match=r"has 10 runs an hour; try again in about 40 min\.$"):
        enter(queue, "a", runs=3)
    with enter(queue, "b", runs=10), enter(queue, "a", runs=2):
        pass
    clock.now += 2401
    with enter(queue, "a", runs=4):
        pass
    with pytest.raises(ValueError, match="These are 11 runs"):
        enter(queue, "c", runs=11)
    clock.now += 7200
    with enter(queue, "d"):
        assert [owner for _, owner, _ in queue.begun] == ["d"]  # the table forgets


def test_a_closed_queue_lets_nobody_in_and_waits_for_the_rest() -> None:
    queue = Queue(PRIVATE_LIMITS)
    running = enter(queue, "a")
    queue.close()
    with pytest.raises(ValueError, match="shut down"):
        enter(queue, "b")
    assert not queue.empty(0.05)
    threading.Timer(0.05, queue.leave, [running]).start()
    assert queue.empty(600.0)
