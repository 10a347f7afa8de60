"""``mars eval run | match | resume``, ``mars advise`` and ``mars check``; further commands of ``mars
eval`` are in results.

``resume`` continues; ``check`` exits with 0 where the server is lossless as far as tested, 1 where
it is not and 2 where that is not known. Results go to standard output, progress to standard error.
"""

from __future__ import annotations

import json
import math
import os
from argparse import Namespace
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from evaluation.options import (
    read_choosing_options,
    read_plan_options,
    read_served_options,
)
from evaluation.served.server import ServerError
from evaluation.study.worker import Work
from mars_core.settings import Settings
from mars_core.settings.setting import chosen
from mars_playground.output import note, write
from mars_playground.results import COMMANDS, find_study, followed
from storage import RunStore, StorageError

if TYPE_CHECKING:
    from evaluation.plan.plan import Plan
    from mars_core.models import Pair
    from mars_core.session import Session


def main(options: Namespace) -> int:
    try:
        if options.command == "check":
            from evaluation.lossless.command import check

            return check(options, os.environ)
        with RunStore(options.db or os.environ.get("MARS_DATABASE_URL") or None) as store:
            return _COMMANDS[options.command](options, store)
    except (ValueError, StorageError, ServerError, OSError) as error:  # ModelError is a ValueError
        note(error)
        return 2 if options.command == "check" or isinstance(error, ValueError) else 1


def _run(options: Namespace, store: RunStore) -> int:
    """Plan and run a study."""
    if options.plan:
        return _planned_before(options, store)
    if options.server or options.baseline:
        from evaluation.served.engine import find_server

        return _serve(
            options, store, read_served_options(options, partial(find_server, os.environ))
        )
    return _begun(options, store, *_planned(options, read_plan_options))


def _planned_before(options: Namespace, store: RunStore) -> int:
    """Run the plan of a file."""
    from evaluation.plan.plan import read_plan
    from evaluation.study.launch import open_session
    from mars_core.text.files import read_text

    try:
        stored = json.loads(read_text(Path(options.plan)))
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{options.plan} is no JSON: {error}.") from None
    plan = read_plan(stored)
    if plan.execute_code and not options.execute_code:
        raise ValueError("The plan runs code that models wrote; allow it with --execute-code.")
    if plan.served:
        return _serve(options, store, plan)
    return _begun(options, store, open_session(options, plan.models.spec()), plan)


def _begun(options: Namespace, store: RunStore, session: Session, plan: Plan) -> int:
    study_id = _stored(store, plan, session)
    write(study_id)
    return 0 if options.plan_only else _work(options, Work(store, study_id), plan, session)


def _choose(options: Namespace, store: RunStore) -> int:
    """``mars advise`` and ``mars eval match``: plan from strict's runs, run, and print the result."""
    from display.render import markdown
    from evaluation.advise.plans import advised, matched
    from evaluation.report.document.build import purpose_document
    from evaluation.report.files import purpose_json
    from evaluation.report.measure import measure

    advise = options.command == "advise"
    if not advise and (options.tau is None) is (options.speed is None):
        raise ValueError("Give either --tau or --speed.")
    for name in () if advise else ("tau", "speed"):
        target = getattr(options, name)
        if target is not None and not 0 < target < math.inf:
            raise ValueError(f"--{name} is {target:g}; it must be a finite number above 0.")
    session, plan = _planned(options, read_choosing_options)
    if plan.loads:
        raise ValueError(f"--batch is {options.batch}; it takes one number here, or auto.")
    if advise:
        plan = advised(plan, session, options.alpha, note)
    else:
        by, target = ("tau", options.tau) if options.tau else ("speedup", options.speed)
        plan = matched(plan, session, by, target, note)
    study_id = _stored(store, plan, session)
    note(study_id)
    status = _work(options, Work(store, study_id), plan, session)
    if not status:
        report = measure(store, study_id)
        as_json = advise and options.json
        write(purpose_json(report) if as_json else markdown(purpose_document(report)))
    return status


def _planned(options: Namespace, read: Callable[[Namespace, Pair], Plan]) -> tuple[Session, Plan]:
    """Return the models of the options, and the plan with its batch."""
    from evaluation.study.batch import AUTO, batch_of
    from evaluation.study.check import longest
    from evaluation.study.launch import open_session

    spec = chosen(Settings, options, "pair", "target", "draft", "head", "classifier").spec()
    session = open_session(options, spec)
    plan = read(options, session.pair)
    tokens, batches = longest(plan, session), (options.batch or "1").split(",")
    sizes = sorted({batch_of(batch, session.pair, tokens) for batch in batches})
    loads, auto = tuple(sizes) if len(sizes) > 1 else (), options.batch == AUTO and sizes[-1] > 1
    plan = replace(plan, batch=sizes[-1], loads=loads, auto=auto)
    return session, plan


def _stored(store: RunStore, plan: Plan, session: Session) -> str:
    """Return the id of a new study, all of whose settings can be run. Raises ValueError."""
    from evaluation.study.check import check
    from mars_core.settings.command_line import threshold_lines

    check(plan, session)
    study_id = store.new_study(plan.name, plan.as_dict(), plan.tasks)
    note(*threshold_lines([lane.rule for lane in plan.lanes], session.pair), *_needed(plan))
    return study_id


def _needed(plan: Plan) -> list[str]:
    """Say how many prompts the verdicts of a comparison take."""
    from evaluation.report.document.verdicts import prompts_needed

    return [] if plan.advice or plan.matching else [prompts_needed(plan)]


def _serve(options: Namespace, store: RunStore, plan: Plan, study_id: str = "") -> int:
    """Run a study on servers; without ``study_id`` a new one. Raises ServerError."""
    from evaluation.served.engine import ServedEngine, check
    from evaluation.study.launch import follow, in_threads, local_runner

    if options.ray:
        raise ValueError(
            "A study on a server runs in one process; use --concurrency for several requests at "
            "once."
        )
    with ServedEngine(plan, os.environ) as engine:
        check(plan, engine)
        if not study_id:
            write(study_id := store.new_study(plan.name, plan.as_dict(), plan.tasks))
            note(*_needed(plan))
            if options.plan_only:
                return 0
        work = Work(store, study_id)
        waves = in_threads(work, local_runner(plan, None, engine))
        return follow(work, plan, waves, quiet=options.quiet)


def _resume(options: Namespace, store: RunStore) -> int:
    from evaluation.plan.plan import read_plan
    from evaluation.study.check import check_sampler

    study_id = find_study(store, options.study)
    plan = read_plan(store.study(study_id).plan)
    check_sampler(plan, store, study_id)
    if options.failed:
        note(f"{store.reopen_failed(study_id):,} tasks are open again.")
    if plan.served:
        return _serve(options, store, plan, study_id)
    return _work(options, Work(store, study_id), plan)


def _work(options: Namespace, work: Work, plan: Plan, session: Session | None = None) -> int:
    """Run the lanes in this process, or on a cluster, which needs no ``session`` here."""
    from evaluation.advise.conduct import in_sequence
    from evaluation.study.engine import InProcess
    from evaluation.study.launch import follow, in_threads, local_runner, open_session
    from evaluation.study.trial import in_trials

    spec = plan.models.spec()
    if options.ray is None:
        session = session or open_session(options, spec)
        in_waves = in_sequence if plan.advice else in_trials if plan.auto else in_threads
        waves = in_waves(work, local_runner(plan, session, InProcess(session)))
        status = follow(work, plan, waves, quiet=options.quiet)
        return status or _intervene(options, work, plan, session)
    if plan.advice:
        raise ValueError("The candidates are tested one after the other; leave out --ray.")
    try:
        from evaluation.study.cluster import Cluster
    except ModuleNotFoundError:
        raise ValueError("--ray needs Ray: pip install 'mars-playground[ray]'") from None
    del session
    with Cluster(options, plan, spec) as cluster:
        waves = iter([[cluster.events(work)]])
        status = follow(work, plan, waves, quiet=options.quiet)
    if status or not plan.interventions:
        return status
    return _intervene(options, work, plan, open_session(options, spec))


def _intervene(options: Namespace, work: Work, plan: Plan, session: Session) -> int:
    """Relax, after all lanes, rejected tokens of strict's texts, each alone."""
    from evaluation.study.follow import intervene
    from evaluation.study.launch import INTERRUPTED

    if not plan.interventions:
        return 0
    try:
        with work:
            progress = intervene(work.store, work.study_id, session, plan.batch)
            return followed(progress, "rejected tokens were relaxed alone", quiet=options.quiet)
    except KeyboardInterrupt:
        note(f"Stopped. Continue with: mars eval resume {work.study_id}")
        return INTERRUPTED


_COMMANDS: dict[str, Callable[[Namespace, RunStore], int]] = {
    "advise": _choose,
    "run": _run,
    "match": _choose,
    "resume": _resume,
    **COMMANDS,
}
