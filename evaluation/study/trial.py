"""Finds the size of a study's batches: some tasks, chosen at random, are decoded first in batches of
several sizes, and all others in those with the most tokens a second. The measurement is their
results, which are in the store, so it goes on where it stopped."""

from __future__ import annotations

import random
import sys
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import replace

from tqdm import tqdm

from evaluation.plan.plan import Plan
from evaluation.plan.valid import MAX_BATCH
from evaluation.study.launch import Events, Waves
from evaluation.study.result import LaneResult, read_result
from evaluation.study.runner import Runner
from evaluation.study.worker import Work
from mars_core.types import Status

SIZES = (1, 4, 8, 16, 32, 64, 128, MAX_BATCH)
LEAST = 4  # tasks of a size


def in_trials(work: Work, runner: Runner) -> Waves:
    """Work as ``launch.in_threads``, in one thread."""

    def events(tasks: Iterable[int], size: int, *, filled: bool) -> Events:
        if runner.session:
            runner.session.pair.engines.clear()  # those of another size
        return work.run(replace(runner, batch=size, filled=filled), deque(tasks))

    for size, tasks in trials(runner.plan):
        left = tasks.intersection(work.store.open_tasks(work.study_id))
        yield [events(sorted(left), size, filled=True)]
    if others := work.store.open_tasks(work.study_id):
        results = work.store.results(work.study_id)
        rates = throughput(read_result(row.data) for row in results)
        best = max(rates, key=rates.__getitem__, default=1)
        measured = ", ".join(f"{rate:,.0f} in batches of {size}" for size, rate in rates.items())
        tqdm.write(
            f"Tokens/s: {measured or 'not measured'}. {len(others):,} tasks run in batches of "
            f"{best}.",
            file=sys.stderr,
        )
        yield [events(others, best, filled=False)]


def trials(plan: Plan) -> Iterator[tuple[int, frozenset[int]]]:
    """Sizes, ascending, each with enough tasks to fill a batch; none of those that run alone."""
    left = sorted(set(range(plan.tasks)) - plan.alone_tasks)
    random.Random(plan.seed).shuffle(left)
    for size in sorted({min(size, plan.batch) for size in SIZES}):
        tasks = max(LEAST, size)
        if tasks > len(left):
            return
        yield size, frozenset(left[:tasks])
        left = left[tasks:]


def throughput(results: Iterable[LaneResult]) -> dict[int, float]:
    """Return tokens a second by size of the batch, of completed runs."""
    tokens, seconds = Counter[int](), defaultdict[int, float](float)
    for result in results:
        if result.status is Status.COMPLETED:
            tokens[result.batch] += int(result.new_tokens)
            seconds[result.batch] += result.wall_s if result.batch == 1 else result.batch_s
    return {size: tokens[size] / seconds[size] for size in sorted(tokens) if seconds[size]}
