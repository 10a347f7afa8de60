"""Runs a study with ``advice``: each candidate on further prompts until it is decided, and no
candidate after one that is not supported. All that decides is in the store, and it decides after
the same prompts wherever it stopped and went on."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from contextlib import closing

from evaluation.advise.certificate import certify, compared
from evaluation.advise.tuning import shuffled
from evaluation.plan.plan import Plan
from evaluation.study.engine import LaneEngine
from evaluation.study.events import LaneTraces, TaskEnded
from evaluation.study.launch import Events, Waves, local_runner
from evaluation.study.runner import Runner
from evaluation.study.worker import Work, process_name
from mars_core.session import Session

LEAST = 8  # prompts between two decisions


def in_sequence(work: Work, plan: Plan, session: Session, engine: LaneEngine) -> Waves:
    """Work as ``launch.in_threads``, in one thread. Closes the tasks of the study when all is
    decided: candidates that were not tested have no results. Raises ValueError for other models."""
    runner = local_runner(plan, session, engine)
    prompts = max(LEAST, math.ceil(runner.chunk / plan.repeats))
    order, beside = shuffled(plan), set(range(len(plan.lanes))).difference(compared(plan))
    while running := certify(plan, work.store.results(work.study_id), prompts).running:
        items = order[running.done : running.done + prompts]
        tasks = [repeat * plan.items + item for item in items for repeat in range(plan.repeats)]
        yield [_events(work, runner, tasks, beside | {running.lane})]
    for task in work.store.open_tasks(work.study_id):
        work.store.finish_task(work.study_id, task, {})


def _events(work: Work, runner: Runner, tasks: Iterable[int], lanes: Collection[int]) -> Events:
    """Yield the missing ones of these lanes. A task is not closed, as others may follow."""
    # lanes that count as done, without traces
    others: LaneTraces = {lane: () for lane in range(len(runner.plan.lanes)) if lane not in lanes}
    name = process_name()
    stored = {task: {**others, **work.traces(task)} for task in tasks}
    with closing(runner.run(stored)) as events:
        for event in events:
            if event is None or isinstance(event, TaskEnded):
                yield None
            else:
                yield work.commit(event, name)
