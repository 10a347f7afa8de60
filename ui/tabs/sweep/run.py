"""A sweep as a plain generator of frames: what the page shows next. Runs in a test without a
browser."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain

from evaluation.format import bounded, count, number, plural, ratio, share
from evaluation.study.pairs import Paired, Sweep, pairs_of
from evaluation.study.plan import Plan
from evaluation.study.points import LEAST_PAIRS, Cost, optimal, points
from evaluation.study.sweep import cell_of
from evaluation.study.worker import Writing
from mars_core.types import Status
from ui.figures.tradeoff import group_label, setting_label, value_label
from ui.jobs.admission import job_errors, unbroken
from ui.jobs.services import Services
from ui.kit.components import Strip, message_strip
from ui.tabs.study.lists import admitted
from ui.tabs.study.running import study_runs
from ui.tabs.sweep.form import SweepForm


@dataclass(frozen=True, slots=True)
class SweepFrame:
    """What changes on the page: the line above, and chart and table where there is something new
    (None: as they were)."""

    strip: Strip
    shown: Sweep | None = None


def run(services: Services, form: SweepForm, visitor: str) -> Iterator[SweepFrame]:
    """Run a sweep and say what came of it. Never raises: the strip says what was wrong."""
    return unbroken(_frames(services, form, visitor), SweepFrame, "sweep")


def _frames(services: Services, form: SweepForm, visitor: str) -> Iterator[SweepFrame]:
    with job_errors(services):
        spec, plan = admitted(services, form)
    sweep, pairs = Sweep("", plan), dict[int, tuple[Paired, ...]]()  # by task
    with closing(study_runs(services, visitor, spec, plan, run_label)) as events:
        for event in events:
            changed = event.worker is not None and not sweep.id
            if event.worker and changed:
                sweep = Sweep(event.worker.study_id, event.worker.plan)
            if event.worker and event.saved and event.saved.result.status is not Status.FAILED:
                stored = event.worker.store.task_results(sweep.id, event.saved.task)
                pairs[event.saved.task] = pairs_of(sweep.plan, stored.values())
                found = tuple(chain(*pairs.values()))
                changed, sweep = found != sweep.pairs, replace(sweep, pairs=found)
            if event.status:
                sweep = replace(sweep, status=event.status, error=event.why)
                yield SweepFrame(closing_strip(sweep), sweep)
            else:
                yield SweepFrame(event.strip, sweep if changed else None)


def run_label(plan: Plan, event: Writing) -> str:
    lane = plan.lanes[event.lane]
    cell = cell_of(plan, plan.task(event.task).temperature, lane)
    return (
        f"strict, {group_label(plan, cell)}"
        if plan.baseline(event.lane) is None
        else setting_label(plan, cell)
    )


def closing_strip(sweep: Sweep) -> Strip:
    done, total, error = len(sweep.pairs), sweep.total, sweep.error.rstrip(".")
    if sweep.status is Status.COMPLETED:
        return message_strip(f"{_all(total)} {verdict(sweep)}", "done", side="Saved to History")
    stored = (
        f"what ended is stored and shown below. {verdict(sweep)}"
        if done
        else "no comparison had ended yet."
    )
    if sweep.status is Status.CANCELLED:
        why = f"{error}; stopped" if error else "Stopped"
        return message_strip(
            f"{why} after {count(done)} of {count(total)} comparisons; {stored}", "cancelled"
        )
    reason = f": {error}" if error else ""
    return message_strip(
        f"Failed after {count(done)} of {count(total)} comparisons{reason}; {stored}", "failed"
    )


def _all(total: int) -> str:
    return "The comparison ran." if total == 1 else f"All {count(total)} comparisons ran."


def verdict(sweep: Sweep) -> str:
    """The fastest setting and its price; and how many settings are on the Pareto front."""
    found = points(sweep.plan, sweep.pairs)
    speeds = [
        (point.speedup.value, index)
        for index, point in enumerate(found)
        if not math.isnan(point.speedup.value)
    ]
    if not speeds:
        return ""
    fewest = min(point.n for point in found)
    if fewest < LEAST_PAIRS:
        return f"With fewer than {LEAST_PAIRS} pairs a setting no fastest one is named: add prompts or repeats."
    point = found[max(speeds)[1]]
    prices = [f"texts differ in {share(point.differ.value)} of {plural(point.n, 'pair')}"]
    prices += (
        [f"TV {bounded(number(point.tv), point.tv_kind)} a token"]
        if not math.isnan(point.tv)
        else []
    )
    prices += (
        [f"right {share(point.score.value)} against {share(point.strict_score.value)}"]
        if point.scored
        else []
    )
    where = f"{value_label(sweep.plan, point.cell)} at {group_label(sweep.plan, point.cell)}"
    best = count(len(optimal(found, Cost.TV)))
    return (
        f"Fastest is {where}: {ratio(point.speedup.value)} strict's speed, {', '.join(prices)}. "
        f"{best} of {plural(len(found), 'setting')} are not beaten in both speed and TV."
    )
