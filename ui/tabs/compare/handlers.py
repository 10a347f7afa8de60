"""What the buttons of Compare do, as plain generators of frames: what the page shows next. Runs in
a test without a browser. Continuations from before and after a relaxed token are not saved."""

from __future__ import annotations

import math
import random
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from mars_core.counterfactual import continued, relaxed_positions
from mars_core.jobs import Began, Ended, Job, JobEvent, RecordedRun, Wrote, follow
from mars_core.settings import Settings
from mars_core.settings.recorded import OTHER_SAMPLER
from mars_core.telemetry import spent_before
from mars_core.types import RuleConfig, RunConfig, Trace
from storage import StoredComparison
from ui.jobs.admission import RUNNING, JobError, admit, check_configs, job_errors
from ui.jobs.driver import INTERVAL_S, Batch, DriverEvent, Waiting, drive, with_models
from ui.jobs.services import Services
from ui.kit.components import message_strip
from ui.result.panels.counterfactual import counterfactual_html
from ui.result.result import by_column, reopened
from ui.settings.values import AUTO_REPEATS, AUTO_S, MOST_LANES
from ui.tabs.compare.frames import DisplayedComparison, Frame, Lanes

if TYPE_CHECKING:
    from mars_core.session import Session


def run_comparison(services: Services, settings: Settings, visitor: str) -> Iterator[Frame]:
    """Run the lanes one after the other and say what came of it. Raises JobError."""
    spec, repeats = admit(services, settings), settings.repeats
    lanes = Lanes(spec)

    def read(session: Session) -> Iterator[Batch]:
        configs = session.configs(settings)
        yield Batch(configs, services.rounds(configs, max(1, repeats)))
        local = services.accelerator.loads  # elsewhere a visitor's quota pays for another job
        if not repeats and local and len(configs) > 1 and lanes.slowest_s < AUTO_S:
            order = services.rounds(configs, AUTO_REPEATS - 1)
            yield Batch(configs, order, comparison=lanes.comparison, before=len(configs), warm=True)

    runs, longest = len(settings.rules) * max(1, repeats), settings.max_new_tokens
    jobs = drive(services, visitor, spec, read, runs=runs, new_tokens=longest)
    yield from _frames(lanes, jobs)


@dataclass(frozen=True, slots=True)
class ContinuationRequest:
    """One more run of the comparison that is displayed: ``column`` up to output position ``index``,
    continued with ``token``; or, with ``theta``, its latest run that has a θ (else its last, under
    MARS) with another; or, ``rejected``, what would have followed without the relaxed token at
    ``index``. ``nonce`` distinguishes two equal requests."""

    column: int = 0
    index: int = 0
    token: int = 0
    theta: float | None = None
    rejected: bool = False
    nonce: float = field(default_factory=random.random)


def run_one_more(
    services: Services,
    displayed: DisplayedComparison,
    continuation: ContinuationRequest,
    visitor: str,
) -> Iterator[Frame]:
    """Run once more in a new lane, saved as a further run of the comparison that is displayed.
    Raises JobError."""
    with job_errors(services):
        stored = services.store.load(displayed.comparison)
        traces = by_column(stored, displayed.lanes).traces
        columns = [traces.get(column) for column in range(len(displayed.lanes))]
        config = continuation_config(columns, continuation)
    lane = 1 + max(run.lane for run in stored.runs)  # after all that the comparison ever had
    yield from _further(
        services, displayed, visitor, stored, Batch((config,), (0,), saved_as=(lane,))
    )


def measure_time(
    services: Services, displayed: DisplayedComparison, visitor: str
) -> Iterator[Frame]:
    """Run ``AUTO_REPEATS`` further rounds of the runs that are displayed. Raises JobError."""
    with job_errors(services):
        stored = services.store.load(displayed.comparison)
        traces = by_column(stored, displayed.lanes).traces
        if len(traces) < len(displayed.lanes):
            raise ValueError("A lane has no run to measure; press Compare first.")
    configs = tuple(trace.config for trace in traces.values())
    saved = tuple(lane for lane in displayed.lanes if lane is not None)
    batch = Batch(configs, services.rounds(configs, AUTO_REPEATS), saved_as=saved)
    yield from _further(services, displayed, visitor, stored, batch)


def _further(
    services: Services,
    displayed: DisplayedComparison,
    visitor: str,
    stored: StoredComparison,
    batch: Batch,
) -> Iterator[Frame]:
    """Run a batch that joins the comparison that is displayed. Raises JobError."""
    traces, speeds = by_column(stored, displayed.lanes)
    saved = tuple(lane for lane in displayed.lanes if lane is not None)
    known = batch.configs if batch.saved_as == saved else ()
    ran = len(stored.runs) + len(stored.repeats)
    batch = replace(batch, comparison=stored.id, before=ran)
    jobs = drive(
        services,
        visitor,
        displayed.pair,
        lambda _: [batch],
        runs=len(batch.order),
        new_tokens=max(config.max_new_tokens for config in batch.configs),
    )
    rounds = len(speeds[0]) if known else 0
    lanes = Lanes(displayed.pair, stored.id, saved, traces, known, rounds=rounds, speeds=speeds)
    yield from _frames(lanes, jobs)


def continuation_config(
    columns: Sequence[Trace | None], continuation: ContinuationRequest
) -> RunConfig:
    """Return the configuration of the new run; ``columns``: what the lanes show. Raises ValueError."""
    known = [trace for trace in columns if trace is not None]
    source = columns[continuation.column] if 0 <= continuation.column < len(columns) else None
    if not known or (continuation.theta is None and source is None):
        raise ValueError("There is no run to continue in this lane; press Compare first.")
    if len(known) < len(columns) or len(columns) >= MOST_LANES:
        raise ValueError(
            f"All {MOST_LANES} lanes are in use or one is empty; remove one, then try again."
        )
    here = [trace.config for trace in known if not trace.config.served]
    if not here or (source is not None and source.config.served):
        raise ValueError("A server wrote this lane; only one that is decoded here goes on.")
    if continuation.theta is not None or source is None:
        config = next(
            (config for config in reversed(here) if "theta" in config.rule.parameters), here[-1]
        )
        name = config.rule.name if "theta" in config.rule.parameters else "mars"
        return replace(config, rule=RuleConfig(name, {"theta": continuation.theta or 0.0}))
    ids, index = (*source.config.prefix, *source.token_ids), continuation.index
    if not 0 <= index < len(ids):
        raise ValueError(
            f"The output position is {index}; this run has positions 0 to {len(ids) - 1}."
        )
    longest = len(source.config.prefix) + source.config.max_new_tokens - index - 1
    if longest < 1:
        raise ValueError(
            f"Position {index} is the last that these settings allow; raise “Max new tokens” to go "
            "on from it."
        )
    return replace(
        source.config,
        prefix=(*ids[:index], continuation.token),
        max_new_tokens=longest,
        spent=spent_before(source, index),
    )


def _frames(lanes: Lanes, jobs: Generator[DriverEvent, None, None]) -> Iterator[Frame]:
    """Return the events as frames, and what came of them. Raises JobError where the lanes were not
    opened."""
    broken = None
    with closing(jobs) as events:
        try:
            for event in events:
                frame = lanes.frame(event)
                if frame:
                    yield frame
        except JobError as error:
            if not lanes.configs:
                raise
            broken = message_strip(str(error), error.state)
    yield lanes.closing(broken)


def run_counterfactual(
    services: Services, displayed: DisplayedComparison, wanted: ContinuationRequest, visitor: str
) -> Iterator[Frame]:
    """Raises JobError."""
    with job_errors(services):
        stored = services.store.load(displayed.comparison)
        run = by_column(stored, displayed.lanes).traces.get(wanted.column)
        position = wanted.index
        if run is None or position not in relaxed_positions(run):
            raise ValueError(f"Position {position} of this lane has no relaxed token.")
        if run.config.draws_otherwise:
            raise ValueError(OTHER_SAMPLER)
    both = [continued(run, start) for start in (position, position + 1)]
    configs = tuple(config for config in both if config)
    records: dict[int, RecordedRun] = {}

    def work(session: Session) -> Generator[JobEvent, None, None]:
        with job_errors(services):
            check_configs(services, session, configs)
        seconds = services.limits.seconds or math.inf
        order = tuple(range(len(configs)))
        job = Job(displayed.pair, configs, order, seconds, INTERVAL_S, warm=True)
        stop = services.stops.of(visitor)
        with job_errors(services, RUNNING), closing(services.accelerator.run(job, stop)) as events:
            yield from events

    jobs = with_models(
        services,
        visitor,
        displayed.pair,
        work,
        runs=len(configs),
        new_tokens=configs[0].max_new_tokens,
    )
    with closing(jobs) as events:
        for event in events:
            if isinstance(event, Waiting):
                yield Frame(message_strip(event.message, "running"))
            elif isinstance(event, Began | Wrote | Ended):
                follow(records, event)
                if isinstance(event, Began):
                    text = "Strict continues from {} the relaxed token …"
                    where = "after" if event.run else "before"
                    yield Frame(message_strip(text.format(where), "running"))
    strip = reopened(stored, displayed.lanes).strip
    with job_errors(services):
        yield Frame(strip, counterfactual=counterfactual_html(run, position, *_ended(records, run)))


def _ended(records: dict[int, RecordedRun], run: Trace) -> tuple[Trace, Trace]:
    """Both continuations; the run itself where it ends with the relaxed token."""
    if 0 not in records:
        raise ValueError("Stopped before the first token.")
    return records[0].trace(), records[1].trace() if 1 in records else run
