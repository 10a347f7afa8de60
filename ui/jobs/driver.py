"""The one driver of jobs: a slot of the queue, the models, the runs, the store.

Compare, a continuation, an endpoint and a vote iterate ``drive``, a study ``with_models``, and turn
the events into what they show. Iterate both inside ``contextlib.closing``: closed, by a tab that
goes away or by an error of the consumer, the run under way is saved and the slot is free.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from evaluation.served.lane import with_servers
from mars_core.jobs import Began, Ended, Job, JobEvent, RecordedRun, Stop, Wrote
from mars_core.models import PairSpec
from mars_core.types import PrefixToken, RunConfig, Trace
from storage import Source, StorageError
from ui.jobs.admission import RUNNING, check_configs, check_pair, job_errors, turn
from ui.jobs.services import Services

if TYPE_CHECKING:
    from mars_core.models import Pair
    from mars_core.session import Session

INTERVAL_S = 0.125  # between two reports of one run; the page takes 3 ms for each


@dataclass(frozen=True, slots=True)
class Batch:
    """Runs on one prompt that are saved as one comparison. ``order``: indices of ``configs`` in the
    order of execution; one that stands there again is repeated. With ``comparison`` they join a
    saved one, after ``before`` runs that it has already. ``saved_as``: the lane of each in the
    store, without it its index. ``warm``: the batch before had the same configurations."""

    configs: tuple[RunConfig, ...]
    order: tuple[int, ...]
    source: Source = Source.COMPARE
    comparison: str = ""
    saved_as: tuple[int, ...] = ()
    before: int = 0
    warm: bool = False

    @property
    def lanes(self) -> tuple[int, ...]:
        return self.saved_as or tuple(range(len(self.configs)))


class Waiting(NamedTuple):
    """For the turn, or for the models."""

    message: str


class Ready(NamedTuple):
    """The models can run all of ``batch``; its first run is warmed up."""

    batch: Batch


class Started(NamedTuple):
    """A run has begun, ``turn`` of its batch from 0; its comparison is in the store. Its Wrote
    events follow, then Saved."""

    run: int
    turn: int
    comparison: str
    prefix: tuple[PrefixToken, ...]
    text: str  # of the prefix


class Saved(NamedTuple):
    """How a run ended. ``error``: why it is not in the store; ``id``: its id there. One of them is
    empty."""

    run: int
    trace: Trace
    error: str
    id: str


DriverEvent = Waiting | Ready | Started | Wrote | Saved
E = TypeVar("E")


def drive(
    services: Services,
    spec: PairSpec,
    read: Callable[[Session], Iterable[Batch]],
    *,
    runs: int,
    new_tokens: float | None,
) -> Generator[DriverEvent, None, None]:
    """Run and save the batches that ``read`` makes once the models of ``spec`` are there, one after
    the other. All runs share ``services.limits.seconds``. ``read`` may raise ValueError. For the
    rest see ``with_models``."""
    stop = services.stop

    def batches(session: Session) -> Generator[DriverEvent, None, None]:
        ends = time.monotonic() + (services.limits.seconds or math.inf)
        for batch in _checked(services, session, read):
            yield Ready(batch)
            job = Job(
                spec,
                batch.configs,
                batch.order,
                max(0.0, ends - time.monotonic()),
                INTERVAL_S,
                batch.warm,
            )
            yield from _runs(services, job, batch, stop)
            if stop.requested():
                return

    return with_models(services, spec, batches, runs=runs, new_tokens=new_tokens)


def with_models(
    services: Services,
    spec: PairSpec,
    work: Callable[[Session], Generator[E, None, None]],
    *,
    runs: int,
    new_tokens: float | None,
) -> Generator[Waiting | E, None, None]:
    """Wait for a slot of the queue, load the models of ``spec``, then do ``work`` with them, whose
    events follow. ``runs``, each of at most ``new_tokens``: for the slot of the queue, which does
    not count against the visitor's hour where ``work`` reported nothing but Ready: no run began.
    Raises JobError, and what ``work`` raises."""
    stop, began = services.stop, False
    with job_errors(services):
        check_pair(services, spec)
        # values out of their range are refused later
        longest = new_tokens if new_tokens and 0 < new_tokens < 10**6 else 1
        owner = services.visitor.owner or stop.key
        queued = services.queue.ticket(owner, runs=runs, tokens=int(longest * runs))
    with queued:
        try:
            yield from map(Waiting, turn(queued, stop.requested))
            with job_errors(services):
                pair = yield from _load(services, spec)
            with closing(work(start_session(pair))) as events:
                for event in events:
                    began = began or not isinstance(event, Ready)
                    yield event
        finally:
            if not began:
                queued.refund()


def start_session(pair: Pair) -> Session:
    from mars_core.session import (
        Session,
    )  # not before a pair is there: the page starts without all that models need

    return Session(pair)


def _load(services: Services, spec: PairSpec) -> Generator[Waiting, None, Pair]:
    """Reports how loading goes; returns the pair. Raises ModelError."""
    if spec not in services.pool.loaded():
        yield Waiting(f"Waiting for the pair {spec.title!r} …")
    messages: SimpleQueue[str | None] = SimpleQueue()  # None: there will be no more
    loading = services.engine.submit(services.pool.get, spec, messages.put)
    loading.add_done_callback(lambda _: messages.put(None))
    while (message := messages.get()) is not None:
        yield Waiting(f"{message} …")
    return loading.result()


def _checked(
    services: Services, session: Session, read: Callable[[Session], Iterable[Batch]]
) -> Iterator[Batch]:
    with job_errors(services):
        for batch in read(session):
            check_configs(services, session, batch.configs)
            yield batch


def job_events(services: Services, job: Job, stop: Stop) -> Generator[JobEvent, None, None]:
    """Yield the events of a job: of the accelerator, and of the servers that it has."""
    here = partial(services.accelerator.run, stop=stop)
    return with_servers(job, services.server_keys, here, stop.requested, services.answers)


def _runs(
    services: Services, job: Job, batch: Batch, stop: Stop
) -> Generator[DriverEvent, None, None]:
    comparison, position = batch.comparison, 0
    with job_errors(services, RUNNING), closing(job_events(services, job, stop)) as events:
        for event in events:
            if isinstance(event, Began):
                comparison = comparison or services.store.new_comparison(
                    job.configs[event.run].prompt, source=batch.source
                )
                yield from _run(services, batch, comparison, event, events, position)
                position += 1


def _run(
    services: Services,
    batch: Batch,
    comparison: str,
    began: Began,
    events: Iterator[JobEvent],
    position: int,
) -> Iterator[DriverEvent]:
    """Run one lane. The run is saved in every case; Saved is yielded before an error is raised."""
    record = RecordedRun(began)
    unsaved, run_id, broken = "", "", None
    try:
        yield Started(began.run, position, comparison, began.given, began.text)
        for event in events:
            assert isinstance(event, Wrote | Ended)
            record.follow(event)
            if isinstance(event, Ended):
                break
            yield event
    except RUNNING as error:
        broken = error
    finally:
        trace = record.trace()
        try:
            run_id = services.store.save_run(
                comparison, trace, lane=batch.lanes[began.run], order=batch.before + position
            )
            services.observe(trace)
        except StorageError as error:
            unsaved = services.sentence(error)
    yield Saved(began.run, trace, unsaved, run_id)
    if broken:
        raise broken
