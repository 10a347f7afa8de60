"""A comparison for a program: the same runs as on the page, saved alike, with plain progress in place of frames. Knows no component."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mars_core.jobs import AcceleratorError, Began, Ended, Event, Job, Wrote
from mars_core.jobs.record import Record
from mars_core.models import PairSpec
from mars_core.types import RunConfig
from ui.jobs.admission import check_configs, check_pair, ticket, turn
from ui.kit.labels import lane_label
from ui.services import Services

if TYPE_CHECKING:
    from mars_core.models import Pair

INTERVAL_S = 0.25  # between two reports of progress, and at most until a client that has gone is noticed


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a comparison stands. ``share``: 0 to 1; ``comparison``: its id, once it has one."""

    message: str
    share: float
    comparison: str | None = None

    def document(self) -> dict[str, Any]:
        return {"id": self.comparison, "state": "running", "progress": self.share, "message": self.message}


def compare(
    services: Services,
    spec: PairSpec,
    lanes: int,
    new_tokens: float | None,
    read: Callable[[Pair], Sequence[RunConfig]],
) -> Generator[Progress, None, str]:
    """Run and save the configurations that ``read`` makes once the pair is there, one after the other, warm, in the services's order.

    Waits for its turn first. Returns the id of the comparison, which is saved when its first run begins. Closed on the way, the run
    under way is saved as cancelled and no other is begun. Raises one of ``admission.REFUSALS``.
    """
    check_pair(services, spec)
    with ticket(services, services.key, runs=lanes, new_tokens=new_tokens) as place:
        for text in turn(place, services.stops.of(services.key).requested):
            yield Progress(f"Waiting: {text}", 0.0)
        pair = yield from _load(services, spec)
        from mars_core.session import (
            Session,  # not before a pair is there: the page starts without all that models need
        )

        try:
            configs = tuple(read(pair))
            check_configs(services, Session(pair), configs)
        except ValueError:
            place.refund()
            raise
        yield Progress("Warming up", 0.0)
        return (yield from _run_all(services, spec, configs))


def _load(services: Services, spec: PairSpec) -> Generator[Progress, None, Pair]:
    """Reports that the pair is waited for. Raises ModelError."""
    loading = services.engine.submit(services.pool.get, spec)
    yield Progress(f"Waiting for the pair {spec.title!r}", 0.0)
    return loading.result()


def _run_all(services: Services, spec: PairSpec, configs: tuple[RunConfig, ...]) -> Generator[Progress, None, str]:
    order = tuple(services.order(len(configs)))
    job = Job(spec, configs, order, services.limits.seconds or math.inf, INTERVAL_S)
    comparison = ""
    with closing(services.accelerator.run(job, services.stops.of(services.key))) as events:
        for event in events:
            if isinstance(event, Began):
                comparison = comparison or services.store.new_comparison(configs[event.run].prompt)
                yield from _run(services, comparison, job, event, events)
    if not comparison:
        raise AcceleratorError("Stopped before the first run began.")
    return comparison


def _run(services: Services, comparison: str, job: Job, began: Began, events: Iterator[Event]) -> Iterator[Progress]:
    """One run; whatever happens, it is saved."""
    record, place, runs = Record(began), job.order.index(began.run), len(job.order)
    try:
        for message, done in _steps(job.configs[began.run], record, events):
            told = f"Run {place + 1} of {runs}: {lane_label(began.config)}, {message}"
            yield Progress(told, (place + done) / runs, comparison)
    finally:
        services.keep(comparison, record.trace(), lane=began.run, order=place)


def _steps(config: RunConfig, record: Record, events: Iterator[Event]) -> Iterator[tuple[str, float]]:
    """What is said of every interval, and the share of the run that is done."""
    tokens = 0
    for event in events:
        assert isinstance(event, Wrote | Ended)
        record.follow(event)
        if isinstance(event, Ended):
            return
        tokens += sum(len(step.emitted) for step in event.steps)
        yield f"{tokens} of at most {config.max_new_tokens} tokens", tokens / config.max_new_tokens
