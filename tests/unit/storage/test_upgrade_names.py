"""Databases of schema 0002 are carried over to names, sweeps and votes: nothing is lost, and old prompts can be searched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from alembic import command
from sqlalchemy import text

from mars_core.types import Status, Trace
from storage import Choice, RunStore, Search, Source, StorageError
from storage.runs.reindex import haystack
from tests.old_sweeps import add_old_sweep
from tests.traces import make_trace, make_tree_trace, same
from tests.unit.storage.exports import runs_csv
from tests.unit.storage.old_schema import dump, make_old, migrations, raw
from tests.unit.storage.test_roundtrip import HOSTILE, hostile_trace
from tests.unit.storage.test_upgrade import CHILD, ROOT, failing_at


def traces_of_0002() -> list[Trace]:
    return [
        make_trace(rule="mars", new_tokens=30, prompt="Straße 100%"),
        make_tree_trace(),
        make_trace(rule="none", new_tokens=5, prompt="\x00\udfff␛"),
        make_trace(new_tokens=0, status=Status.FAILED, prompt=""),
    ]


def assert_carried_over(url: str, ids: list[str], traces: list[Trace]) -> None:
    with RunStore(url) as store:
        assert store.count() == len(traces)
        for comparison_id, trace in zip(ids, traces, strict=True):
            loaded = store.load(comparison_id)
            assert (loaded.name, loaded.tags, loaded.comment, loaded.sweep_id) == ("", (), "", None)
            assert loaded.source is Source.COMPARE
            assert same(loaded.runs[0].trace, trace)
        assert (store.votes(), store.sweeps()) == ((), ())


def test_runs_of_0002_are_read_back_as_they_were(url: str) -> None:
    traces = traces_of_0002()
    ids = make_old(url, traces, "0002")
    assert_carried_over(url, ids, traces)
    with RunStore(url) as store:  # and is as good as a new one
        store.annotate(ids[0], name="old", tags=["t"])
        again = store.save_run(ids[0], make_trace(new_tokens=3, prompt="Straße 100%", prefix=(1, 2)), lane=1, order=1)
        store.add_vote(ids[0], left_lane=0, right_lane=1, choice=Choice.RIGHT)
        assert store.votes()[0].winner_run == again
        store.delete(ids[1])
        assert store.find(Search(tag="t")).frame["id"].tolist() == [ids[0]]
        assert runs_csv(store).count("\r\n") == len(traces) + 1


@pytest.mark.parametrize("revision", ["0001", "0002"])
def test_old_prompts_are_found(url: str, revision: str) -> None:
    texts = [*HOSTILE, "STRASSE", "É\x00"]
    ids = make_old(url, [hostile_trace(prompt) for prompt in texts], revision)
    with RunStore(url) as store:
        for comparison_id, prompt in zip(ids, texts, strict=True):
            assert comparison_id in store.find(Search(text=prompt.upper())).frame["id"].tolist()
    expected = {comparison_id: haystack(prompt, "", "", ()) for comparison_id, prompt in zip(ids, texts, strict=True)}
    assert {row["id"]: row["search"] for row in dump(url)["comparisons"]} == expected


def test_many_comparisons_are_carried_over(sqlite_url: str) -> None:
    traces = [make_trace(new_tokens=1, prompt=f"prompt {number}") for number in range(201)]  # three reads
    ids = make_old(sqlite_url, traces, "0002")
    with RunStore(sqlite_url) as store:
        found = [store.find(Search(text=f"PROMPT {number}", limit=500)).frame["id"] for number in (0, 100, 200)]
        assert [ids[number] in set(frame) for number, frame in zip((0, 100, 200), found, strict=True)] == [True] * 3
        assert store.find(Search(text="prompt ")).total == 201


def test_down_and_up_again_keeps_what_0002_keeps(url: str) -> None:
    traces = traces_of_0002()
    ids = make_old(url, traces, "0002")
    before = dump(url)
    with RunStore(url) as store:
        gone = store.new_comparison(traces[0].config.prompt)
        store.save_run(gone, traces[0], lane=0, order=0)
        store.delete(gone)
        add_old_sweep(store, {}, [], Status.COMPLETED)
        store.annotate(ids[0], name="lost on the way down")
    with raw(url) as connection:
        command.downgrade(migrations(connection), "0002")
    assert dump(url) == before
    assert_carried_over(url, ids, traces)


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
@pytest.mark.parametrize(
    "statement", ["ALTER TABLE comparisons", "CREATE TABLE votes", "UPDATE comparisons", "DROP INDEX", "UPDATE alembic"]
)
def test_killed_in_the_upgrade_leaves_0002(request: pytest.FixtureRequest, database: str, statement: str) -> None:
    url = request.getfixturevalue(f"{database}_url")
    traces = traces_of_0002()
    ids = make_old(url, traces, "0002")
    before = dump(url)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    child = subprocess.run([sys.executable, "-c", CHILD, url, statement], cwd=ROOT, env=environment, check=False)
    assert child.returncode == -signal.SIGKILL
    assert dump(url) == before
    assert_carried_over(url, ids, traces)


def test_failed_upgrade_is_said_and_leaves_0002(url: str) -> None:
    traces = traces_of_0002()
    ids = make_old(url, traces, "0002")
    before = dump(url)
    with (
        failing_at("UPDATE comparisons"),
        pytest.raises(StorageError, match="could not be opened: the plug was pulled"),
    ):
        RunStore(url)
    assert dump(url) == before
    assert_carried_over(url, ids, traces)


def test_upgrade_leaves_no_row_without_its_parent(sqlite_url: str) -> None:
    traces = traces_of_0002()
    make_old(sqlite_url, traces, "0002")
    with RunStore(sqlite_url) as store:
        for comparison_id in store.comparisons()["id"][:2]:
            store.delete(comparison_id)
        assert store.purge(datetime.now(UTC) + timedelta(days=1)) == 2
    with raw(sqlite_url) as connection:
        assert connection.execute(text("PRAGMA foreign_key_check")).all() == []
        assert connection.execute(text("PRAGMA integrity_check")).all() == [("ok",)]
        assert connection.execute(text("SELECT count(*) FROM runs")).scalar_one() == 2
