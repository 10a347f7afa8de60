"""Many processes on one study, and some of them killed: every task is done, nothing is lost and
nothing is there twice."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

from mars_core.types import Trace
from storage import ResultExists, RunStore, Search
from tests.traces import make_trace, same
from tests.unit.children import Child
from tests.unit.storage.studying import OpenTask, counts, saved

TASKS, LANES = 12, 2


def at_work(pipe: Connection, url: str, study_id: str, worker: str) -> None:
    """Works off a study; says what it does, and goes on at a message."""

    def say(*words: object) -> None:
        pipe.send(words)
        pipe.recv()

    with RunStore(url) as store:
        say("ready")
        while tasks := store.open_tasks(study_id):  # by whomever
            for task in random.sample(tasks, len(tasks)):
                work_off(store, OpenTask(study_id, task, worker), say)


def trace_of(task: int, lane: int) -> Trace:
    return make_trace(rule=("strict", "mars")[lane], seed=task, new_tokens=12)


def work_off(store: RunStore, at: OpenTask, say: Callable[..., object]) -> None:
    for lane in {0, 1} - set(store.task_results(at.study_id, at.task)):
        try:
            saved(store, at, lane, [trace_of(at.task, lane)], {"status": "completed"})
            say("saved", at.task, lane)
        except ResultExists:
            say("lost")
    store.finish_task(at.study_id, at.task, {lane: {"same": True} for lane in range(LANES)})
    say("finished")


def may(child: Child, times: int) -> None:
    """Let it go on so often."""
    for _ in range(times):
        child.pipe.send("go on")


def assert_complete(store: RunStore, study_id: str) -> None:
    """Every lane of every task has one result, whose run is there and complete; nothing else is."""
    results = store.results(study_id)
    assert [(one.task, one.lane) for one in results] == [
        (task, lane) for task in range(TASKS) for lane in range(LANES)
    ]
    run_ids = [run_id for result in results for run_id in result.run_ids]
    assert len(set(run_ids)) == len(results) == counts(store)["runs"]
    assert counts(store)["comparisons"] == TASKS
    assert all(result.relative == {"same": True} for result in results)
    progress = store.study_progress(study_id)
    assert (progress.done, progress.results) == (TASKS, len(results))
    for comparison_id in store.matching_ids(Search(limit=1000)):
        runs = store.load(comparison_id).runs
        assert [run.lane for run in runs] == list(range(LANES))
        assert all(same(run.trace, trace_of(run.trace.config.seed, run.lane)) for run in runs)
    records = store.records(run_ids)
    assert [(one.config.seed, one.lane) for one in records] == [
        (one.task, one.lane) for one in results
    ]


def test_killed_workers_lose_nothing_and_others_go_on(url: str) -> None:
    """Three at work on the same tasks, two of them killed at any time."""
    rng = random.Random(7)
    with RunStore(url) as store:
        study_id = store.new_study("", {}, TASKS)
    children = [Child(at_work, url, study_id, f"w{number}") for number in range(3)]
    assert [child.pipe.recv() for child in children] == [("ready",)] * 3
    may(children[2], 4)  # so that tasks are left for the others, however slow they are
    messages = []
    for child in children[:2]:
        count = rng.randrange(2, 6)
        may(child, count + 1)
        messages += [child.pipe.recv() for _ in range(count)]
        time.sleep(rng.random() * 0.03)
        child.kill()
    may(children[2], 99)
    messages += [words for child in children for words in child.rest()]
    assert [child.process.exitcode for child in children] == [-signal.SIGKILL, -signal.SIGKILL, 0]
    done = [words for words in messages if words[0] == "saved"]
    assert len(done) == len(set(done))
    with RunStore(url) as store:
        assert_complete(store, study_id)
