"""``run`` and ``resume``: a study is planned and worked on."""

from __future__ import annotations

from argparse import Namespace

from evaluation.arguments import read_plan_options
from evaluation.commands.read import find, open_store
from evaluation.commands.say import say, tell
from evaluation.study.check import check, without_long
from evaluation.study.launch import INTERRUPTED, Work, further_workers, open_session, spec_of, spec_of_models
from evaluation.study.plan import read_plan
from evaluation.study.processes import place, share
from mars_core.session import Session
from storage import RunStore


def run(options: Namespace) -> int:
    """Plan a study and work on it. Of several processes started together the first plans."""
    here = place()
    _check_workers(options, here.world)
    with open_store(options.db) as store:
        session = open_session(options, spec_of(options), here)
        study_id = share(here, _new_study(options, store, session) if here.first else "")
        if here.first:
            say(study_id)
        if options.plan_only:
            return 0
        return _work(options, store, study_id, session)


def resume(options: Namespace) -> int:
    """Go on with a study, alone or beside others."""
    here = place()
    _check_workers(options, here.world)
    with open_store(options.db) as store:
        study_id = find(store, options.study)
        if options.failed and here.first:
            tell(f"{store.reopen_failed(study_id):,} tasks are open again.")
        plan = read_plan(store.study(study_id).plan)
        return _work(options, store, study_id, open_session(options, spec_of_models(plan.models), here))


def _new_study(options: Namespace, store: RunStore, session: Session) -> str:
    plan = read_plan_options(options, session.pair)
    if options.skip_long:
        short = without_long(plan, session)
        tell(f"{plan.items - short.items:,} of {plan.items:,} items do not fit into the context and are left out.")
        plan = short
    check(plan, session)
    return store.new_study(plan.name, plan.as_dict(), plan.tasks)


def _work(options: Namespace, store: RunStore, study_id: str, session: Session) -> int:
    with further_workers(options, study_id):
        done = Work(store, study_id, session, place(), options.quiet).run()
    if not done:
        tell(f"Stopped; what ended is kept. Go on with: python -m evaluation resume {study_id}")
        return INTERRUPTED
    return 0


def _check_workers(options: Namespace, world: int) -> None:
    if not 1 <= options.workers <= 256:
        raise ValueError(f"--workers is {options.workers}; it must be 1 to 256.")
    if options.workers > 1 and world > 1:
        raise ValueError(f"--workers is {options.workers} in a launch of {world} processes; use one of the two.")
