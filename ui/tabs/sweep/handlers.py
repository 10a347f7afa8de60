"""A sweep as a plain generator of frames: what the page shows next. Runs in a test without a browser; knows no component."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass

from evaluation.sweeps.points import Plan, Result, points, read_plan, read_result
from evaluation.sweeps.runner import Progress, Sweep, check, run_sweep, widest
from evaluation.sweeps.tradeoff import Cost, optimal
from mars_core.types import Status
from storage import RunStore, StorageError, StoredSweep
from ui.jobs.admission import BROKEN_OFF, REFUSALS, check_configs, check_own, refusal, ticket, turn, unbroken, waiting
from ui.kit.components import Strip, words
from ui.kit.format import about, count, number, plural, ratio, share
from ui.kit.told import told
from ui.services import Services
from ui.settings.form import CUSTOM
from ui.tabs.compare.handlers import load, start_session
from ui.tabs.sweep.form import SweepForm, read_plan_of, read_spec
from ui.tabs.sweep.table import group_label, value_label

WARMING = "Warming up: a few tokens that do not count …"


@dataclass(frozen=True, slots=True)
class Shown:
    """A sweep, or what there is of it: all that the chart and the table need."""

    id: str
    plan: Plan
    results: tuple[Result, ...] = ()


@dataclass(frozen=True, slots=True)
class SweepFrame:
    """What changes on the page: the line above, and chart and table where there is something new (None: as they were)."""

    strip: Strip
    shown: Shown | None = None


def run(services: Services, form: SweepForm, visitor: str) -> Iterator[SweepFrame]:
    """Run a sweep and say what came of it. Never raises: the strip says what was wrong."""
    return unbroken(_sweep(services, form, visitor), SweepFrame, "sweep")


def _sweep(services: Services, form: SweepForm, visitor: str) -> Iterator[SweepFrame]:
    with ExitStack() as held:
        try:
            sweep = yield from _begin(services, form, visitor, held)
        except REFUSALS as error:
            yield SweepFrame(refusal(services, error))
            return
        try:
            yield SweepFrame(words(WARMING, "running"), Shown(sweep.id, sweep.plan))
            with closing(run_sweep(sweep)) as running:
                yield from _frames(sweep.plan, sweep.id, running)
        except BROKEN_OFF as error:
            yield SweepFrame(refusal(services, error))


def _begin(services: Services, form: SweepForm, visitor: str, held: ExitStack) -> Generator[SweepFrame, None, Sweep]:
    """A new sweep, once its turn has come; ``held`` keeps the turn. Raises one of REFUSALS."""
    limits = services.limits
    if form.pair == CUSTOM:
        check_own(services)
    spec = read_spec(form, services.catalog)
    plan = read_plan_of(form, spec)
    limits.check_sweep(plan.runs)
    for case in plan.cases:
        limits.check_prompt(case.prompt, plan.system, *plan.stop)
    place = held.enter_context(ticket(services, visitor, runs=plan.runs, new_tokens=plan.max_new_tokens))
    stop = services.stops.of(visitor)
    for text in turn(place, stop.requested):
        yield SweepFrame(waiting(text))
    pair = yield from load(services, spec, SweepFrame)
    session = start_session(pair)
    try:
        check(plan, session)
        for configs in widest(plan, session):
            check_configs(services, session, configs)
    except ValueError:
        place.refund()
        raise
    sweep_id = services.store.new_sweep(plan.as_dict())
    return Sweep(
        plan, session, services.store, sweep_id, services.accelerator, stop, limits.seconds or math.inf, services.observe,
        services.order,
    )  # fmt: skip


def _frames(plan: Plan, sweep_id: str, running: Iterator[Progress]) -> Iterator[SweepFrame]:
    done = 0
    for progress in running:
        fresh = len(progress.results) > done or progress.status is not None
        done = len(progress.results)
        shown = Shown(sweep_id, plan, progress.results) if fresh else None
        if progress.status is None:
            yield SweepFrame(_under_way(plan, progress), shown)
        else:
            yield SweepFrame(closing_strip(plan, progress.results, progress.status, progress.error), shown)


def reopened(store: RunStore, sweep_id: str, *, public: bool = False) -> SweepFrame:
    """A stored sweep as it was shown when it ended; a failed one without its reason, which the run in History tells."""
    try:
        stored = store.sweep(sweep_id)
        plan, results = read_sweep(stored)
    except (ValueError, StorageError) as error:
        return SweepFrame(words(told(error, public=public), "failed"))
    return SweepFrame(closing_strip(plan, results, stored.status), Shown(sweep_id, plan, results))


def read_sweep(stored: StoredSweep) -> tuple[Plan, tuple[Result, ...]]:
    """Raises ValueError where another version of this program wrote it."""
    return read_plan(stored.plan), tuple(map(read_result, stored.results))


def _under_way(plan: Plan, progress: Progress) -> Strip:
    done, task = len(progress.results), progress.task
    if task is None:
        return words(WARMING, "running")
    part = (progress.run + min(1.0, progress.tokens / plan.max_new_tokens)) / 2
    setting = f"{value_label(plan, task.cell)}, {group_label(plan, task.cell)}"
    text = (
        f"Comparison {count(done + 1)} of {count(progress.total)}: {setting}, "
        f"prompt {count(task.case + 1)} of {count(len(plan.cases))}"
    )
    left = "" if math.isnan(progress.remaining_s) else f"{about(progress.remaining_s)} to go"
    return words(text, "running", side=left, progress=(done + part) / progress.total)


def closing_strip(plan: Plan, results: Sequence[Result], status: Status, error: str = "") -> Strip:
    """What came of a sweep, in a sentence or two."""
    done, total = len(results), plan.comparisons
    if status is Status.COMPLETED:
        return words(f"{_all(total)} {verdict(plan, results)}", "done", side="Saved to History")
    kept = f"what ended is kept and shown below. {verdict(plan, results)}" if done else "nothing had ended yet."
    if status is Status.CANCELLED:
        why = f"{error.rstrip('.')}; stopped" if error else "Stopped"
        return words(f"{why} after {count(done)} of {count(total)} comparisons; {kept}", "cancelled")
    reason = f": {error.rstrip('.')}" if error else ""
    return words(f"Failed after {count(done)} of {count(total)} comparisons{reason}; {kept}", "failed")


def _all(total: int) -> str:
    return "The comparison ran." if total == 1 else f"All {count(total)} comparisons ran."


def verdict(plan: Plan, results: Sequence[Result]) -> str:
    """The fastest setting and its price; and how many settings are worth a look."""
    found = points(plan, results)
    speeds = [(point.speedup.value, index) for index, point in enumerate(found) if not math.isnan(point.speedup.value)]
    if not speeds:
        return ""
    point = found[max(speeds)[1]]
    prices = [f"texts differ in {share(point.differ.value)} of {plural(point.n, 'pair')}"]
    prices += [f"TV {number(point.tv)} a token"] if not math.isnan(point.tv) else []
    prices += [f"right {share(point.score.value)} against {share(point.strict_score.value)}"] if point.scored else []
    where = f"{value_label(plan, point.cell)} at {group_label(plan, point.cell)}"
    best = count(len(optimal(found, Cost.TV)))
    return (
        f"Fastest is {where}: {ratio(point.speedup.value)} strict's speed, {', '.join(prices)}. "
        f"{best} of {plural(len(found), 'setting')} are not beaten in both speed and TV."
    )
