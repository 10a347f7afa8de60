"""What the buttons of Compare do, as plain generators of frames: what the page shows next. Runs in
a test without a browser. Continuations from before and after a relaxed token are not saved."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from evaluation.conversation import follow_ups
from mars_core.counterfactual import continued, relaxed_positions
from mars_core.jobs import Began, Ended, Job, JobEvent, RecordedRun, Wrote, follow
from mars_core.settings import Settings
from mars_core.settings.recorded import OTHER_SAMPLER, settings_of
from mars_core.types import ANSWER, RunConfig, Trace
from storage import StoredComparison
from ui.jobs.admission import RUNNING, JobError, admit, check_configs, job_errors
from ui.jobs.driver import INTERVAL_S, Batch, DriverEvent, Waiting, drive, with_models
from ui.jobs.services import Services
from ui.kit.components import message_strip
from ui.result.panels.counterfactual import counterfactual_html
from ui.result.result import by_column, reopened
from ui.settings.values import AUTO_REPEATS, AUTO_S
from ui.tabs.compare.continuation import ContinuationRequest, continuation_config
from ui.tabs.compare.frames import DisplayedComparison, Frame, Lanes

if TYPE_CHECKING:
    from mars_core.session import Session


def run_comparison(services: Services, settings: Settings) -> Iterator[Frame]:
    """Run the lanes one after the other and say what came of it. Raises JobError."""
    lanes = Lanes(admit(services, settings))
    yield from _compared(
        services,
        settings,
        lanes,
        lambda it: it.configs(settings, services.answers),
        (),
    )


def run_follow_up(
    services: Services,
    displayed: DisplayedComparison,
    question: str,
    history: str,
) -> Iterator[Frame]:
    """Ask the lanes that are displayed a follow-up, with the settings of their runs; saved as the
    next turn of their comparison. ``history``: of HISTORIES. Raises JobError."""
    with job_errors(services):
        stored = services.store.load(displayed.comparison)
        known = {run.lane: run.trace for turn in stored.turns for run in turn.runs}
        saved = tuple(lane for lane in displayed.lanes if lane in known)
        if len(saved) < len(displayed.lanes):
            raise ValueError("A lane has no run to go on from; press Compare first.")
        configs = [known[lane].config for lane in saved]
        if any(ANSWER in config.environment for config in configs):
            raise ValueError("A lane is a saved answer, which is not asked for again.")
        longest = max(len(config.prefix) + config.max_new_tokens for config in configs)
        of_runs = settings_of(configs, services.catalog)
        settings = replace(of_runs, prompt=question, max_new_tokens=longest, repeats=0)
        traces = {run.lane: run.trace for run in stored.runs}
        turns = follow_ups([traces.get(lane) for lane in saved], question, history)
    admit(services, settings)
    lanes = Lanes(displayed.pair, stored.id, earlier=stored.turns)
    yield from _compared(services, settings, lanes, lambda it: it.asked(settings, turns), saved)


def _compared(
    services: Services,
    settings: Settings,
    lanes: Lanes,
    configs_of: Callable[[Session], tuple[RunConfig, ...]],
    saved_as: tuple[int, ...],
) -> Iterator[Frame]:
    """Run lanes with these configurations, short ones several times. ``saved_as``: as of a
    Batch."""
    repeats, before = settings.repeats, sum(turn.executed for turn in lanes.earlier)

    def read(session: Session) -> Iterator[Batch]:
        configs = configs_of(session)
        order = services.rounds(configs, max(1, repeats))
        first = Batch(configs, order, comparison=lanes.comparison, saved_as=saved_as, before=before)
        yield first
        local = services.accelerator.loads  # elsewhere a visitor's quota pays for another job
        if not repeats and local and len(configs) > 1 and lanes.slowest_s < AUTO_S:
            order = services.rounds(configs, AUTO_REPEATS - 1, again=True)
            ran = before + len(configs)
            yield replace(first, order=order, comparison=lanes.comparison, before=ran, warm=True)

    runs, longest = len(settings.rules) * max(1, repeats), settings.max_new_tokens
    jobs = drive(services, lanes.pair, read, runs=runs, new_tokens=longest)
    yield from _frames(lanes, jobs)


def run_one_more(
    services: Services,
    displayed: DisplayedComparison,
    continuation: ContinuationRequest,
) -> Iterator[Frame]:
    """Run once more in a new lane, saved as a further run of the comparison that is displayed.
    Raises JobError."""
    with job_errors(services):
        stored = services.store.load(displayed.comparison)
        traces = by_column(stored, displayed.lanes).traces
        columns = [traces.get(column) for column in range(len(displayed.lanes))]
        config = continuation_config(columns, continuation)
    # after all that the comparison ever had
    lane = 1 + max(run.lane for turn in stored.turns for run in turn.runs)
    yield from _further(services, displayed, stored, Batch((config,), (0,), saved_as=(lane,)))


def measure_time(services: Services, displayed: DisplayedComparison) -> Iterator[Frame]:
    """Run ``AUTO_REPEATS`` further rounds of the runs that are displayed. Raises JobError."""
    with job_errors(services):
        stored = services.store.load(displayed.comparison)
        traces = by_column(stored, displayed.lanes).traces
        if len(traces) < len(displayed.lanes):
            raise ValueError("A lane has no run to measure; press Compare first.")
    configs = tuple(trace.config for trace in traces.values())
    saved = tuple(lane for lane in displayed.lanes if lane is not None)
    order = services.rounds(configs, AUTO_REPEATS, again=True)
    batch = Batch(configs, order, saved_as=saved)
    yield from _further(services, displayed, stored, batch)


def _further(
    services: Services,
    displayed: DisplayedComparison,
    stored: StoredComparison,
    batch: Batch,
) -> Iterator[Frame]:
    """Run a batch that joins the comparison that is displayed. Raises JobError."""
    traces, speeds = by_column(stored, displayed.lanes)
    saved = tuple(lane for lane in displayed.lanes if lane is not None)
    known = batch.configs if batch.saved_as == saved else ()
    batch = replace(batch, comparison=stored.id, before=stored.executed)
    jobs = drive(
        services,
        displayed.pair,
        lambda _: [batch],
        runs=len(batch.order),
        new_tokens=max(config.max_new_tokens for config in batch.configs),
    )
    rounds = len(speeds[0]) if known else 0
    lanes = Lanes(displayed.pair, stored.id, saved, traces, known, rounds=rounds, speeds=speeds)
    lanes.earlier = stored.earlier
    yield from _frames(lanes, jobs)


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
    services: Services, displayed: DisplayedComparison, wanted: ContinuationRequest
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
        stop = services.stop
        with job_errors(services, RUNNING), closing(services.accelerator.run(job, stop)) as events:
            yield from events

    jobs = with_models(
        services,
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
