"""Databases of schema 0003 are carried over to studies: nothing is lost, and what only studies know goes on the way down."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from alembic import command

from mars_core.types import Status, Trace
from storage import RunStore, Search, Source
from tests.traces import make_trace, make_tree_trace, same
from tests.unit.storage.exports import runs_csv
from tests.unit.storage.old_schema import dump, make_old, migrations, raw
from tests.unit.storage.studying import DATA, claimed, conversation, worked_off
from tests.unit.storage.test_upgrade import CHILD, ROOT


def traces_of_0003() -> list[Trace]:
    return [
        make_trace(rule="mars", new_tokens=20, prompt="Straße 100%", prefix=(1, 2)),
        make_tree_trace(),
        make_trace(new_tokens=0, status=Status.FAILED, prompt="\x00\udfff␛"),
    ]


def assert_carried_over(url: str, ids: list[str], traces: list[Trace]) -> None:
    with RunStore(url) as store:
        assert store.studies() == ()
        for comparison_id, trace in zip(ids, traces, strict=True):
            loaded = store.load(comparison_id)
            assert loaded.source is Source.COMPARE
            assert same(loaded.runs[0].trace, trace)
            assert trace.config.prompt.history == ()
        assert store.find(Search(text="STRASSE")).frame["id"].tolist() == ids[:1]


def test_runs_of_0003_are_read_back_as_they_were(url: str) -> None:
    traces = traces_of_0003()
    ids = make_old(url, traces, "0003")
    assert_carried_over(url, ids, traces)
    with RunStore(url) as store:  # and is as good as a new one
        study_id = store.new_study("", {}, 1)
        worked_off(store, study_id)
        assert len(store.results(study_id)) == 2
        assert runs_csv(store).count("\r\n") == len(traces) + 3


def test_down_and_up_again_keeps_what_0003_keeps(url: str) -> None:
    traces = traces_of_0003()
    ids = make_old(url, traces, "0003")
    before = dump(url)
    with RunStore(url) as store:
        claim = claimed(store, store.new_study("", {}, 1))
        run_ids = store.save_result(claim, 0, conversation("mars", ("answer",)), DATA, order=0)
        left = [record.comparison_id for record in store.records(run_ids)]
    with raw(url) as connection:
        command.downgrade(migrations(connection), "0003")
    after = dump(url)
    assert [row for row in after["comparisons"] if row["id"] in ids] == before["comparisons"]
    assert {row["source"] for row in after["comparisons"] if row["id"] in left} == {"sweep"}  # a word that 0003 knows
    assert {name: list(rows[0]) for name, rows in after.items() if rows} == {
        name: list(rows[0]) for name, rows in before.items() if rows
    }
    assert set(after) == set(before)
    assert_carried_over(url, ids, traces)
    with RunStore(url) as store:
        assert store.load(left[1]).runs[0].trace.config.prompt.history == ()


@pytest.mark.parametrize(
    ("database", "statement"),
    [("sqlite", "ALTER TABLE runs"), ("sqlite", "UPDATE alembic"), ("postgres", "CREATE TABLE judgements")],
)
def test_killed_in_the_upgrade_leaves_0003(request: pytest.FixtureRequest, database: str, statement: str) -> None:
    url = request.getfixturevalue(f"{database}_url")
    traces = traces_of_0003()
    ids = make_old(url, traces, "0003")
    before = dump(url)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    child = subprocess.run([sys.executable, "-c", CHILD, url, statement], cwd=ROOT, env=environment, check=False)
    assert child.returncode == -signal.SIGKILL
    assert dump(url) == before
    assert_carried_over(url, ids, traces)
