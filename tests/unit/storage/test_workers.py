"""Many processes on one study, and some of them killed: every task is done, nothing is lost and nothing is there twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mars_core.types import Trace
from storage import Claim, ClaimLost, RunStore, StorageError
from tests.traces import make_trace, same
from tests.unit.storage.studying import LEASE_S, counts, run_out

ROOT = Path(__file__).parents[3]
TASKS, LANES = 12, 2

# Works off a study; says what it does, and goes on when it has read a line. With the beginning of a statement: kills itself
# after the second such one, which is in the middle of a transaction.
CHILD = """
import os, signal, sys
from sqlalchemy import Engine, event
from storage import RunStore
from tests.unit.storage.test_workers import work

url, study_id, worker, lease_s, statement = sys.argv[1:]
seen = 0

def kill(connection, cursor, executed, *rest):
    global seen
    seen += bool(statement) and executed.startswith(statement)
    if seen == 2:
        os.kill(os.getpid(), signal.SIGKILL)

event.listen(Engine, "after_cursor_execute", kill)
def say(*words):
    print(*words, flush=True)
    sys.stdin.readline()

store = RunStore(url)
say("ready")
work(store, study_id, worker, float(lease_s), say)
"""


def trace_of(task: int, lane: int) -> Trace:
    return make_trace(rule=("strict", "mars")[lane], seed=task, new_tokens=12)


def work(store: RunStore, study_id: str, worker: str, lease_s: float, say: Callable[..., object]) -> None:
    """Until all tasks are done, by whomever."""
    while (progress := store.study_progress(study_id)).done < progress.tasks:
        claim = store.claim_task(study_id, worker, lease_s)
        try:
            _work_off(store, claim, say) if claim else time.sleep(0.02)
        except ClaimLost:
            say("lost")


def _work_off(store: RunStore, claim: Claim, say: Callable[..., object]) -> None:
    there = store.task_results(claim.study_id, claim.task)
    for lane in {0, 1} - set(there):
        store.save_result(claim, lane, [trace_of(claim.task, lane)], {"status": "completed"}, order=lane)
        say("saved", claim.task, lane)
    store.finish_task(claim, {lane: {"same": True} for lane in range(LANES)})
    say("finished", claim.task)


def start(url: str, study_id: str, worker: str, lease_s: float = LEASE_S, kill: str = "") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CHILD, url, study_id, worker, str(lease_s), kill]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def said(child: subprocess.Popen[str], lines: int) -> list[str]:
    assert child.stdout is not None
    return [child.stdout.readline() for _ in range(lines)]


def may(child: subprocess.Popen[str], lines: int) -> None:
    """Let it go on after so many lines."""
    assert child.stdin is not None
    child.stdin.write("\n" * lines)
    child.stdin.flush()


def assert_whole(store: RunStore, study_id: str, tasks: int) -> None:
    """Every lane of every task has one result, whose run is there and whole; nothing else is."""
    found = store.results(study_id)
    assert [(one.task, one.lane) for one in found] == [(task, lane) for task in range(tasks) for lane in range(LANES)]
    run_ids = [run_id for result in found for run_id in result.run_ids]
    assert len(set(run_ids)) == len(found) == counts(store)["runs"]
    assert counts(store)["comparisons"] == tasks
    assert all(result.relative == {"same": True} for result in found)
    progress = store.study_progress(study_id)
    assert (progress.done, progress.results, store.claims(study_id)) == (tasks, len(found), ())
    for comparison_id in store.comparisons()["id"]:
        runs = store.load(comparison_id).runs
        assert [run.lane for run in runs] == list(range(LANES))
        assert all(same(run.trace, trace_of(run.trace.config.seed, run.lane)) for run in runs)
    records = store.records(run_ids)
    assert [(one.config.seed, one.lane) for one in records] == [(one.task, one.lane) for one in found]


def test_killed_workers_lose_nothing_and_others_go_on(url: str) -> None:
    """Three at work, two of them killed at any time; their tasks go on when the leases have run out."""
    rng = random.Random(7)
    with RunStore(url) as store:
        study_id = store.new_study("", {}, TASKS)
        children = [start(url, study_id, f"w{number}", lease_s=1.0) for number in range(3)]
        assert [said(child, 1) for child in children] == [["ready\n"]] * 3
        may(children[2], 4)  # so that tasks are left for the others, however slow they are
        lines = []
        for child in children[:2]:
            count = rng.randrange(2, 6)
            may(child, count + 1)
            lines += said(child, count)
            time.sleep(rng.random() * 0.03)
            child.kill()
        may(children[2], 999)
        rest = [child.communicate(timeout=60)[0] for child in children]
        assert [child.returncode for child in children] == [-signal.SIGKILL, -signal.SIGKILL, 0]
        words = [line for line in "".join((*lines, *rest)).splitlines() if not line.startswith("lost")]
        assert len(words) == len(set(words))
        assert_whole(store, study_id, TASKS)
        assert len(store.study_progress(study_id).workers) == 3


def test_worker_waits_longer_than_the_page(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.database.BUSY_TIMEOUT_S", 0.01)
    monkeypatch.setattr("storage.studies.claims.PATIENCE_S", 0.3)
    with RunStore(sqlite_url) as store, RunStore(sqlite_url) as other:
        study_id = store.new_study("", {}, 1)
        with (
            other._write("") as _held,
            pytest.raises(StorageError, match="The study was not saved: database is locked"),
        ):
            store.new_study("", {}, 1)
        with other._write("") as _held, pytest.raises(StorageError, match="No task was claimed: database is locked"):
            store.claim_task(study_id, "w", LEASE_S)
        with ThreadPoolExecutor(1) as pool:
            with other._write("") as _held:
                claim = pool.submit(store.claim_task, study_id, "w", LEASE_S)
                time.sleep(0.1)
            assert claim.result() is not None


@pytest.mark.parametrize(
    ("database", "statement"),
    [
        ("sqlite", "INSERT INTO study_results"),
        ("sqlite", "UPDATE study_results"),
        ("postgres", "INSERT INTO study_results"),
    ],
)
def test_worker_killed_in_a_transaction_leaves_none_of_it(
    request: pytest.FixtureRequest, database: str, statement: str
) -> None:
    url = request.getfixturevalue(f"{database}_url")
    with RunStore(url) as store:
        study_id = store.new_study("", {}, 3)
        child = start(url, study_id, "killed", kill=statement)
        lines = child.communicate("\n" * 99, timeout=60)[0].splitlines()
        assert child.returncode == -signal.SIGKILL
        saved = [line for line in lines if line.startswith("saved")]
        assert store.study_progress(study_id).results == len(saved) == counts(store)["runs"] > 0
        (left,) = store.claims(study_id)
        assert left.worker == "killed"
        run_out(store, Claim(study_id, left.task, ""))
        work(store, study_id, "heir", LEASE_S, lambda *_token_columns: None)
        assert_whole(store, study_id, 3)
