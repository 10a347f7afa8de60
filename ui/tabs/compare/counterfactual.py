"""What would have followed if a relaxed token had been rejected: two continuations, which are not
saved. No gradio."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import TYPE_CHECKING

from mars_core.counterfactual import continued, relaxed_positions
from mars_core.jobs import Began, Ended, Job, JobEvent, RecordedRun, Wrote, follow
from mars_core.settings.recorded import OTHER_SAMPLER
from mars_core.types import Trace
from ui.jobs.admission import RUNNING, check_configs, job_errors
from ui.jobs.driver import INTERVAL_S, Waiting, with_models
from ui.jobs.services import Services
from ui.kit.components import message_strip
from ui.result.panels.counterfactual import counterfactual_html
from ui.result.result import by_column, reopened
from ui.tabs.compare.frames import DisplayedComparison, Frame
from ui.tabs.compare.handlers import ContinuationRequest

if TYPE_CHECKING:
    from mars_core.session import Session


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
