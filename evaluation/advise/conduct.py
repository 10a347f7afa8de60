"""Runs a study with ``advice``: each candidate on further prompts until it is decided, and no
candidate after one that is not supported. All that decides is in the store, and it decides after
the same prompts wherever it stopped and went on."""

from __future__ import annotations

import math
from collections import deque

from evaluation.advise.certificate import certify, compared
from evaluation.advise.tuning import shuffled
from evaluation.study.events import LaneTraces
from evaluation.study.launch import Waves
from evaluation.study.runner import Runner
from evaluation.study.worker import Work

LEAST = 8  # prompts between two decisions


def in_sequence(work: Work, runner: Runner) -> Waves:
    """Work as ``launch.in_threads``, in one thread. Closes the tasks of the study when all is
    decided: candidates that were not tested have no results."""
    plan = runner.plan
    prompts = max(LEAST, math.ceil(runner.chunk / plan.repeats))
    order, candidates = shuffled(plan), compared(plan)
    while running := certify(plan, work.store.results(work.study_id), prompts).running:
        items = order[running.done : running.done + prompts]
        tasks = [repeat * plan.items + item for item in items for repeat in range(plan.repeats)]
        others: LaneTraces = {lane: () for lane in candidates if lane != running.lane}
        yield [work.run(runner, deque(tasks), others)]
    for task in work.store.open_tasks(work.study_id):
        work.store.finish_task(work.study_id, task, {})
