"""What the buttons of Compare do, as plain generators of frames: what the page shows next. Runs in
a test without a browser. Continuations from before and after a relaxed token are not saved."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from evaluation.conversation import follow_ups
from mars_core.counterfactual import continued, relaxed_positions
from mars_core.jobs import Began, Job, RecordedRun, follow
from mars_core.settings import Settings
from mars_core.settings.recorded import OTHER_SAMPLER, settings_of
from mars_core.types import ANSWER, RunConfig
from storage import StoredComparison
from ui.jobs.admission import RUNNING, JobError, admit, check_configs, job_errors
from ui.jobs.driver import INTERVAL_S, Batch, Waiting, drive, with_models
from ui.jobs.services import Services
from ui.kit.components import message_strip
from ui.result.panels.counterfactual import counterfactual_html
from ui.result.result import ended_result
from ui.settings.values import AUTO_REPEATS, AUTO_S
from ui.tabs.compare.continuation import ContinuationRequest, continuation_config
from ui.tabs.compare.frames import DisplayedComparison, Frame, Lanes

if TYPE_CHECKING:
    from mars_core.session import Session


def run_comparison(services: Services, settings: Settings) -> Iterator[Frame]:
    """Run the lanes one after the other and say what came of it. Raises JobError."""
    pair = admit(services, settings)
    nothing = StoredComparison("", datetime.now(UTC), settings.prompt_config, ())
    yield from _compared(
        services,
        settings,
        Lanes(DisplayedComparison("", pair, ()), nothing),
        lambda session: session.configs(settings, services.answers),
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
    turn = replace(stored, runs=(), repeats=(), earlier=stored.turns)
    lanes = Lanes(replace(displayed, lanes=()), turn)
    yield from _compared(
        services, settings, lanes, lambda session: session.asked(settings, turns), saved
    )


def _compared(
    services: Services,
    settings: Settings,
    lanes: Lanes,
    configs_of: Callable[[Session], tuple[RunConfig, ...]],
    saved_as: tuple[int, ...] = (),
) -> Iterator[Frame]:
    """Run lanes with these configurations, short ones several times. ``saved_as``: as of a
    Batch."""

    def read(session: Session) -> Iterator[Batch]:
        configs, repeats = configs_of(session), settings.repeats
        yield Batch(configs, services.rounds(configs, max(1, repeats)), saved_as=saved_as)
        local = services.accelerator.loads  # elsewhere a visitor's quota pays for another job
        if not repeats and local and len(configs) > 1 and lanes.slowest_s < AUTO_S:
            order = services.rounds(configs, AUTO_REPEATS - 1, again=True)
            yield Batch(configs, order, saved_as=saved_as, warm=True)

    runs = len(settings.rules) * max(1, settings.repeats)
    yield from _frames(services, lanes, read, runs, settings.max_new_tokens)


def run_one_more(
    services: Services,
    displayed: DisplayedComparison,
    continuation: ContinuationRequest,
) -> Iterator[Frame]:
    """Run once more in a new lane, saved as a further run of the comparison that is displayed.
    Raises JobError."""
    with job_errors(services):
        lanes = Lanes(displayed, services.store.load(displayed.comparison))
        columns = [lanes.traces.get(column) for column in range(len(displayed.lanes))]
        config = continuation_config(columns, continuation)
    # after all that the comparison ever had
    lane = 1 + max(run.lane for turn in lanes.stored.turns for run in turn.runs)
    batch = Batch((config,), (0,), saved_as=(lane,))
    yield from _frames(services, lanes, lambda _: iter([batch]), 1, config.max_new_tokens)


def measure_time(services: Services, displayed: DisplayedComparison) -> Iterator[Frame]:
    """Run ``AUTO_REPEATS`` further rounds of the runs that are displayed. Raises JobError."""
    saved = tuple(lane for lane in displayed.lanes if lane is not None)
    with job_errors(services):
        lanes = Lanes(displayed, services.store.load(displayed.comparison))
        if len(lanes.traces) < len(displayed.lanes):
            raise ValueError("A lane has no run to measure; press Compare first.")
    order = services.rounds(lanes.configs, AUTO_REPEATS, again=True)
    batch = Batch(lanes.configs, order, saved_as=saved)
    longest = max(config.max_new_tokens for config in lanes.configs)
    yield from _frames(services, lanes, lambda _: iter([batch]), len(order), longest)


def _frames(
    services: Services,
    lanes: Lanes,
    read: Callable[[Session], Iterator[Batch]],
    runs: int,
    new_tokens: int,
) -> Iterator[Frame]:
    """Run batches that join the comparison, and return the events as frames, and what came of
    them. Raises JobError where no batch was ready."""

    def joined(session: Session) -> Iterator[Batch]:
        for batch in read(session):
            stored = lanes.stored
            yield replace(batch, comparison=stored.id, before=stored.executed)

    broken = None
    jobs = drive(services, lanes.displayed.pair, joined, runs=runs, new_tokens=new_tokens)
    with closing(jobs) as events:
        try:
            for event in events:
                frame = lanes.frame(event)
                if frame:
                    yield frame
        except JobError as error:
            if not lanes.batch.configs:
                raise
            broken = message_strip(str(error), error.state)
    yield lanes.closing(broken)


def run_counterfactual(
    services: Services, displayed: DisplayedComparison, wanted: ContinuationRequest
) -> Iterator[Frame]:
    """Raises JobError."""
    with job_errors(services):
        lanes = Lanes(displayed, services.store.load(displayed.comparison))
        run, position = lanes.traces.get(wanted.column), wanted.index
        if run is None or position not in relaxed_positions(run):
            raise ValueError(f"Position {position} of this lane has no relaxed token.")
        if run.config.draws_otherwise:
            raise ValueError(OTHER_SAMPLER)
    # the run itself where it ends with the relaxed token
    both = [continued(run, start) for start in (position, position + 1)]
    configs = tuple(config for config in both if config)
    records: dict[int, RecordedRun] = {}

    def work(session: Session) -> Generator[Waiting, None, None]:
        with job_errors(services):
            check_configs(services, session, configs)
        seconds, order = services.limits.seconds or math.inf, tuple(range(len(configs)))
        job = Job(displayed.pair, configs, order, seconds, INTERVAL_S, warm=True)
        jobs = services.accelerator.run(job, services.stop)
        with job_errors(services, RUNNING), closing(jobs) as events:
            for event in events:
                follow(records, event)
                if isinstance(event, Began):
                    where = "after" if event.run else "before"
                    yield Waiting(f"Strict continues from {where} the relaxed token …")

    longest = configs[0].max_new_tokens
    jobs = with_models(services, displayed.pair, work, runs=len(configs), new_tokens=longest)
    with closing(jobs) as waiting:
        for each in waiting:
            yield Frame(message_strip(each.message, "running"))
    with job_errors(services):
        if 0 not in records:
            raise ValueError("Stopped before the first token.")
        strict, relaxed = records[0].trace(), records[1].trace() if 1 in records else run
        panel = counterfactual_html(run, position, strict, relaxed)
    yield Frame(ended_result(lanes.stored, displayed.lanes).strip, counterfactual=panel)
