"""Databases of version 0.1.0 are carried over to draft trees: nothing is lost, and an interrupted upgrade harms nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import Connection, Engine, event, text

from mars_core.types import DraftMode, Outcome, Status, Trace
from storage import RunStore, StorageError
from tests.traces import make_trace, same
from tests.unit.storage.old_schema import NAN, dump, make_old, migrations, raw, upgraded

ROOT = Path(__file__).parents[3]
HOSTILE = ["=a", "\x00", "\ud800␛", "", ' "b"\\', "nan"]

# Opens the store and kills itself after the first statement that begins with the given words. The cache is small, so
# that pages reach the file long before the commit.
CHILD = """
import os, signal, sys
from sqlalchemy import Engine, event
from storage import RunStore

def kill(connection, cursor, statement, *rest):
    if statement.lstrip().startswith(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)

if sys.argv[1].startswith("sqlite"):
    event.listen(Engine, "connect", lambda connection, record: connection.execute("PRAGMA cache_size = 5"))
event.listen(Engine, "after_cursor_execute", kill)
RunStore(sys.argv[1])
"""


def realistic() -> list[Trace]:
    return [
        make_trace(rule="strict", new_tokens=60),
        make_trace(rule="mars", new_tokens=60, seed=1),
        make_trace(rule="mars", new_tokens=60, temperature=0.0),
        make_trace(rule="none", new_tokens=20),
        make_trace(rule="mars", new_tokens=30, words=HOSTILE, prompt="\udfff\x00"),
        make_trace(new_tokens=0, status=Status.FAILED),
        make_trace(new_tokens=9, status=Status.CANCELLED),
    ]


def assert_carried_over(url: str, ids: list[str], traces: list[Trace]) -> None:
    with RunStore(url) as store:
        for comparison_id, trace in zip(ids, traces, strict=True):
            (run,) = store.load(comparison_id).runs
            assert same(run.trace, upgraded(trace))


def test_old_runs_are_read_back_as_they_were(url: str) -> None:
    traces = realistic()
    ids = make_old(url, traces)
    assert_carried_over(url, ids, traces)
    with RunStore(url) as store:  # and is as good as a new one
        trace = make_trace(new_tokens=5)
        store.save_run(ids[0], replace(trace, config=traces[0].config), lane=1, order=1)
        store.delete(ids[1])
        assert store.count() == len(traces) - 1


def test_run_of_many_steps_is_carried_over(sqlite_url: str) -> None:
    trace = make_trace(rule="mars", k=1, new_tokens=800)
    assert len(trace.steps) > 400  # three reads
    assert_carried_over(sqlite_url, make_old(sqlite_url, [trace]), [trace])


def test_many_runs_are_carried_over(sqlite_url: str) -> None:
    traces = [make_trace(seed=seed, new_tokens=2) for seed in range(201)]  # two reads
    assert_carried_over(sqlite_url, make_old(sqlite_url, traces), traces)


def test_rows_become_what_the_contract_says(url: str) -> None:
    """One run of two steps, spelled out: a step whose last drafted token was not judged, and a bonus."""
    trace = make_trace(new_tokens=0)
    (comparison_id,) = make_old(url, [trace])
    with raw(url) as connection:
        run = connection.execute(text("SELECT id FROM runs")).scalar_one()
        connection.execute(text("UPDATE runs SET new_tokens = 3, steps = 2, tv_sum = 0.75"))
        step = "INSERT INTO steps (run_id, step, drafted, kept, draft_s, verify_s, elapsed_s, drafted_ids) "
        for number, ids in ((0, "[7,8,9]"), (1, "[]")):
            values = {"run": run, "step": number, "ids": ids}
            connection.execute(text(step + "VALUES (:run, :step, 3, 1, 0.1, 0.1, 0.2, :ids)"), values)
        for row in (
            (0, 0, 0, 1, "relaxed", 7, "a\u241b0000", 0.25, 1.0, 0.75),
            (0, 1, 1, 2, "rejected", 8, '"b"', 0.1, None, 0.0),
            (0, 2, 1, 2, "recovered", 5, "c", 0.5, None, 1e-10),
            (1, 0, 2, 1, "bonus", 6, "d", 0.5, None, 0.0),
        ):
            names = ["step", "ordinal", "position", "draft_position", "outcome", "token_id", "piece", "p", "q", "tv"]
            columns = ", ".join(names)
            slots = ", ".join(f":{name}" for name in names)
            insert = (
                f"INSERT INTO tokens (run_id, {columns}, char_start, char_end, id1, id2, own, own_piece, rank, top) "
                f"VALUES (:run, {slots}, 0, 1, 1, 2, 1, '', 1, '[]')"
            )
            connection.execute(text(insert), {"run": run, **dict(zip(names, row, strict=True))})
    RunStore(url).close()
    found = dump(url)
    nodes = {row["step"]: row["nodes"] for row in found["steps"]}
    assert (json.loads(nodes[0]) if isinstance(nodes[0], str) else nodes[0]) == [
        [7, "a\u241b0000", 0, 1, 0.25, 1.0, "relaxed"],
        [8, '"b"', 1, 2, 0.1, "nan", "rejected"],
        [9, "", 2, 3, "nan", "nan", "rejected"],
    ]
    assert nodes[1] in ("[]", [])
    places = [(row["outcome"], row["node"], row["parent"], row["kl"], row["logprob"]) for row in found["tokens"]]
    assert sorted(places) == [
        ("bonus", 0, 0, None, None),
        ("recovered", 0, 1, None, None),
        ("rejected", 2, 1, None, None),
        ("relaxed", 1, 0, None, None),
    ]
    (run,) = found["runs"]
    assert [run[name] for name in ("tv_mean", "tv_max", "shifted_share")] == [0.25, 0.75, 0.5]
    assert [run[name] for name in ("kl_sum", "kl_mean", "kl_max", "log_likelihood", "perplexity")] == [None] * 5
    assert [run[name] for name in ("tree_tokens", "tree_depth", "tree_top_k")] == [None] * 3
    with RunStore(url) as store:
        assert store.load(comparison_id).runs[0].trace.steps[0].nodes[0].piece == "a\x00"


def test_unmeasured_tv_stays_unmeasured(url: str) -> None:
    trace = make_trace(new_tokens=1)
    (token,) = trace.steps[0].tokens
    step = replace(trace.steps[0], tokens=(replace(token, tv=NAN),))
    summary = replace(trace.summary, tv_sum=NAN, tv_mean=NAN, tv_max=NAN, shifted_share=NAN)
    trace = replace(trace, steps=(step,), summary=summary)
    assert_carried_over(url, make_old(url, [trace]), [trace])


def test_the_uniform_of_sampled_drafts_becomes_the_coin(url: str) -> None:
    trace = make_trace(new_tokens=12)
    sampled = replace(trace.config, drafter=replace(trace.config.drafter, mode=DraftMode.SAMPLED))
    (comparison_id,) = make_old(url, [replace(trace, config=sampled)])
    with RunStore(url) as store:
        found = store.load(comparison_id).runs[0].trace
    assert {token.outcome for token in trace.tokens} >= {Outcome.ACCEPTED, Outcome.BONUS}
    for old, new in zip(trace.tokens, found.tokens, strict=True):
        drawn = old.outcome is Outcome.BONUS
        assert (new.u, new.coin) == pytest.approx((old.u, NAN) if drawn else (NAN, old.u), nan_ok=True)


def test_opened_by_many_at_once_is_carried_over_once(url: str) -> None:
    traces = realistic()
    ids = make_old(url, traces)
    with ThreadPoolExecutor(4) as pool:
        for store in pool.map(RunStore, [url] * 4):
            store.close()
    assert_carried_over(url, ids, traces)


def test_down_and_up_again_keeps_what_0001_keeps(url: str) -> None:
    traces = realistic()
    ids = make_old(url, traces)
    before = dump(url)
    RunStore(url).close()
    with raw(url) as connection:
        command.downgrade(migrations(connection), "0001")
    assert dump(url) == before
    assert_carried_over(url, ids, traces)


@pytest.mark.parametrize(
    ("database", "statement"),
    [
        ("sqlite", "ALTER TABLE steps"),
        ("sqlite", "UPDATE steps"),
        ("sqlite", "DROP TABLE"),
        ("sqlite", "UPDATE alembic_version"),
        ("postgres", "UPDATE steps"),
        ("postgres", "UPDATE alembic_version"),
    ],
)
def test_killed_in_the_upgrade_leaves_the_old_database(
    request: pytest.FixtureRequest, database: str, statement: str
) -> None:
    url = request.getfixturevalue(f"{database}_url")
    traces = realistic()
    ids = make_old(url, traces)
    before = dump(url)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    child = subprocess.run([sys.executable, "-c", CHILD, url, statement], cwd=ROOT, env=environment, check=False)
    assert child.returncode == -signal.SIGKILL
    if database == "sqlite" and statement != "ALTER TABLE steps":
        journal = Path(f"{url.removeprefix('sqlite:///')}-journal")
        assert journal.stat().st_size > 0, "the kill came before the file was touched"
    assert dump(url) == before
    assert_carried_over(url, ids, traces)


@contextmanager
def failing_at(statement: str) -> Iterator[None]:
    def fail(_connection: Connection, _cursor: object, executed: str, *_rest: object) -> None:
        if executed.startswith(statement):
            raise OSError("the plug was pulled")

    event.listen(Engine, "before_cursor_execute", fail)
    try:
        yield
    finally:
        event.remove(Engine, "before_cursor_execute", fail)


def test_failed_upgrade_is_said_and_leaves_the_old_database(url: str) -> None:
    traces = realistic()
    ids = make_old(url, traces)
    before = dump(url)
    with failing_at("UPDATE runs"), pytest.raises(StorageError, match="could not be opened: the plug was pulled"):
        RunStore(url)
    assert dump(url) == before
    assert_carried_over(url, ids, traces)


def peak_of_upgrade(url: str, runs: int) -> int:
    """Bytes at the peak of an upgrade of ``runs`` runs."""
    make_old(url, [make_trace(new_tokens=150, k=3)] * runs)
    tracemalloc.start()
    try:
        RunStore(url).close()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_upgrade_takes_constant_memory(tmp_path: Path) -> None:
    _, few, many = (peak_of_upgrade(f"sqlite:///{tmp_path / str(runs)}/runs.db", runs) for runs in (1, 3, 24))
    assert many < 1.25 * few  # the first one loads the migrations
