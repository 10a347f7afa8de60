"""A sweep as a plain generator of frames: what the page shows next. Runs in a test without a browser."""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

from evaluation.format import about, count, number, plural, ratio, share
from evaluation.study.check import check, every_prompt, every_setting
from evaluation.study.engine import Accelerated
from evaluation.study.pairs import Paired, Sweep, load_sweep, pairs_of
from evaluation.study.plan import Models, Plan
from evaluation.study.points import LEAST_PAIRS, Cost, optimal, points
from evaluation.study.processes import own_name
from evaluation.study.sweep import cell_of, runs_planned
from evaluation.study.worker import Saved, Stopped, Worker, Writing
from mars_core.jobs import Stop
from mars_core.models import PairSpec
from mars_core.types import Status, StopReason
from storage import RunStore, StorageError
from ui.figures.tradeoff import group_label, setting_label, value_label
from ui.jobs.admission import RUNNING, check_configs, chosen_pair, job_errors, unbroken
from ui.jobs.driver import with_models
from ui.jobs.services import Services
from ui.kit.components import Strip, message_strip
from ui.kit.errors import error_message
from ui.tabs.study.sweep_form import SweepForm, read_plan_of

if TYPE_CHECKING:
    from mars_core.session import Session

WARMING = "Warming up: a few tokens that do not count …"
TIME_IS_UP = "The time for one sweep is up"


@dataclass(frozen=True, slots=True)
class SweepFrame:
    """What changes on the page: the line above, and chart and table where there is something new (None: as they were)."""

    strip: Strip
    shown: Sweep | None = None


def run(services: Services, form: SweepForm, visitor: str) -> Iterator[SweepFrame]:
    """Run a sweep and say what came of it. Never raises: the strip says what was wrong."""
    return unbroken(_sweep(services, form, visitor), SweepFrame, "sweep")


def _sweep(services: Services, form: SweepForm, visitor: str) -> Iterator[SweepFrame]:
    with job_errors(services):
        spec, plan = admitted(services, form)

    def work(session: Session) -> Generator[SweepFrame, None, None]:
        with job_errors(services):
            worker = _worker(services, session, spec, plan, services.stops.of(visitor))
        yield SweepFrame(message_strip(WARMING, "running"), Sweep(worker.study_id, worker.plan))
        with job_errors(services, RUNNING):
            yield from _frames(services, worker)

    jobs = with_models(services, visitor, spec, work, runs=runs_planned(plan), new_tokens=plan.max_new_tokens)
    with closing(jobs) as events:
        for event in events:
            yield event if isinstance(event, SweepFrame) else SweepFrame(message_strip(event.message, "running"))


def admitted(services: Services, form: SweepForm) -> tuple[PairSpec, Plan]:
    """The pair and the plan of a form whose pair, size and prompts may be used here. Raises ValueError."""
    spec = chosen_pair(services, form)
    plan = read_plan_of(form, spec)
    services.limits.check_sweep(runs_planned(plan))
    for item in plan.suites[0].items:
        services.limits.check_prompt(item.turns[0], plan.system, *plan.stop)
    return spec, plan


def _worker(services: Services, session: Session, spec: PairSpec, plan: Plan, stop: Stop) -> Worker:
    """Of a new study, all of whose runs these models can do. Raises ValueError."""
    pair = session.pair
    plan = replace(plan, models=Models(spec.key, pair.target_ref, pair.draft_ref, pair.head_ref))
    check(plan, session)
    for config in chain(every_setting(plan, session), every_prompt(plan, session)):
        check_configs(services, session, (config,))
    study_id = services.store.new_study(plan.name, plan.as_dict(), plan.tasks)
    engine = Accelerated(spec, services.accelerator, stop, services.limits.seconds or math.inf)
    return Worker(services.store, study_id, plan, session, engine, own_name(), order=services.order)


def _frames(services: Services, worker: Worker) -> Iterator[SweepFrame]:
    """A frame for every report of the worker. It ends at the first run that failed."""
    sweep, started = Sweep(worker.study_id, worker.plan), time.monotonic()
    done, pairs = 0, dict[int, tuple[Paired, ...]]()  # by task
    status, why = Status.COMPLETED, ""
    try:
        with closing(worker.events()) as events:
            for event in events:
                if isinstance(event, Writing):
                    yield SweepFrame(_under_way(sweep, event, time.monotonic() - started, done))
                elif isinstance(event, Saved):
                    for trace in event.traces:
                        services.observe(trace)
                    done += 1
                    if event.result.status is Status.FAILED:
                        status, why = Status.FAILED, event.result.error
                        break
                    stored = worker.store.task_results(worker.study_id, event.task)
                    pairs[event.task] = pairs_of(worker.plan, stored.values())
                    if (found := tuple(chain(*pairs.values()))) != sweep.pairs:
                        sweep = replace(sweep, pairs=found)
                        ended = Writing(event.task, event.lane, 0)
                        yield SweepFrame(_under_way(sweep, ended, time.monotonic() - started, done), sweep)
    except Stopped as stopped:
        status, why = Status.CANCELLED, TIME_IS_UP if stopped.reason is StopReason.DEADLINE else ""
    sweep = replace(sweep, status=status, error=why)
    yield SweepFrame(closing_strip(sweep), sweep)


def reopened(store: RunStore, sweep_id: str, *, public: bool = False) -> SweepFrame:
    """A stored sweep as it was shown when it ended."""
    try:
        sweep = load_sweep(store, sweep_id)
    except (ValueError, StorageError) as error:
        return SweepFrame(message_strip(error_message(error, public=public), "failed"))
    return SweepFrame(closing_strip(sweep), sweep)


def _under_way(sweep: Sweep, event: Writing, elapsed_s: float, done: int) -> Strip:
    """``done``: runs that ended, at whose pace the others are expected to go on."""
    plan, runs = sweep.plan, runs_planned(sweep.plan)
    task, lane = plan.task(event.task), plan.lanes[event.lane]
    cell = cell_of(plan, task.temperature, lane)
    setting = f"strict, {group_label(plan, cell)}" if plan.baseline(event.lane) is None else setting_label(plan, cell)
    text = f"Run {count(min(done + 1, runs))} of {count(runs)}: {setting}, prompt {count(task.item + 1)} of {count(plan.items)}"
    left = f"{about(elapsed_s / done * (runs - done))} to go" if done else ""
    part = min(1.0, event.tokens / plan.max_new_tokens)
    return message_strip(text, "running", side=left, progress=min(1.0, (done + part) / runs))


def closing_strip(sweep: Sweep) -> Strip:
    """What came of a sweep, in a sentence or two."""
    done, total, error = len(sweep.pairs), sweep.total, sweep.error.rstrip(".")
    if sweep.status is Status.COMPLETED:
        return message_strip(f"{_all(total)} {verdict(sweep)}", "done", side="Saved to History")
    stored = f"what ended is stored and shown below. {verdict(sweep)}" if done else "no comparison had ended yet."
    if sweep.status is Status.CANCELLED:
        why = f"{error}; stopped" if error else "Stopped"
        return message_strip(f"{why} after {count(done)} of {count(total)} comparisons; {stored}", "cancelled")
    reason = f": {error}" if error else ""
    return message_strip(f"Failed after {count(done)} of {count(total)} comparisons{reason}; {stored}", "failed")


def _all(total: int) -> str:
    return "The comparison ran." if total == 1 else f"All {count(total)} comparisons ran."


def verdict(sweep: Sweep) -> str:
    """The fastest setting and its price; and how many settings are on the Pareto front."""
    found = points(sweep.plan, sweep.pairs)
    speeds = [(point.speedup.value, index) for index, point in enumerate(found) if not math.isnan(point.speedup.value)]
    if not speeds:
        return ""
    fewest = min(point.n for point in found)
    if fewest < LEAST_PAIRS:
        return f"With fewer than {LEAST_PAIRS} pairs a setting no fastest one is named: add prompts or repeats."
    point = found[max(speeds)[1]]
    prices = [f"texts differ in {share(point.differ.value)} of {plural(point.n, 'pair')}"]
    prices += [f"TV {number(point.tv)} a token"] if not math.isnan(point.tv) else []
    prices += [f"right {share(point.score.value)} against {share(point.strict_score.value)}"] if point.scored else []
    where = f"{value_label(sweep.plan, point.cell)} at {group_label(sweep.plan, point.cell)}"
    best = count(len(optimal(found, Cost.TV)))
    return (
        f"Fastest is {where}: {ratio(point.speedup.value)} strict's speed, {', '.join(prices)}. "
        f"{best} of {plural(len(found), 'setting')} are not beaten in both speed and TV."
    )
