"""Databases of schema 0004 are carried over to owners: what was there is everybody's, and a killed upgrade changes nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from alembic import command

from storage import RunStore, Shared
from tests.traces import make_trace, same
from tests.unit.storage.old_schema import dump, make_old, migrations, raw
from tests.unit.storage.test_owners import make
from tests.unit.storage.test_upgrade import CHILD, ROOT
from tests.unit.storage.test_upgrade_studies import traces_of_0003

TRACES = traces_of_0003()


def assert_carried_over(url: str, ids: list[str]) -> None:
    with RunStore(url) as store:
        for comparison_id, trace in zip(ids, TRACES, strict=True):
            assert same(store.load(comparison_id).runs[0].trace, trace)
        assert (store.of("anna").count(), store.shares()) == (0, ())


def test_what_0004_had_is_everybodys(url: str) -> None:
    ids = make_old(url, TRACES, "0004")
    before = dump(url)
    assert_carried_over(url, ids)
    after = dump(url)
    assert after.pop("shares") == []
    assert [{**row, "owner": ""} for row in before["comparisons"]] == after["comparisons"]
    later = {"thinking": None, "pass_rows": None, "pass_width": None}  # of 0006
    before["runs"] = [row | later for row in before["runs"]]
    assert {name: rows for name, rows in before.items() if name not in ("comparisons", "alembic_version")} == {
        name: rows for name, rows in after.items() if name not in ("comparisons", "alembic_version")
    }
    with RunStore(url) as store:  # and is as good as a new one
        store.of("anna").share(Shared.SWEEP, make(store.of("anna"), "annas own").sweep)


def test_down_and_up_again_keeps_what_0004_keeps(url: str) -> None:
    ids = make_old(url, TRACES, "0004")
    before = dump(url)
    with RunStore(url) as store:
        comparison = store.of("anna").new_comparison(make_trace().config.prompt)
        store.of("anna").share(Shared.COMPARISON, comparison)
    with raw(url) as connection:
        command.downgrade(migrations(connection), "0004")
    after = dump(url)
    assert [row for row in after["comparisons"] if row["id"] in ids] == before["comparisons"]
    assert set(after) == set(before)
    assert_carried_over(url, ids)
    with RunStore(url) as store:
        assert store.count() == len(ids) + 1  # the owner is forgotten, so it is everybody's


@pytest.mark.parametrize(
    ("database", "statement"),
    [("sqlite", "ALTER TABLE comparisons"), ("postgres", "CREATE TABLE shares")],
)
def test_killed_in_the_upgrade_leaves_0004(request: pytest.FixtureRequest, database: str, statement: str) -> None:
    url = request.getfixturevalue(f"{database}_url")
    ids = make_old(url, TRACES, "0004")
    before = dump(url)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    child = subprocess.run(
        [sys.executable, "-c", CHILD, url, statement], cwd=ROOT, env=environment, check=False, stderr=subprocess.PIPE
    )
    assert child.returncode == -signal.SIGKILL, child.stderr
    assert dump(url) == before
    assert_carried_over(url, ids)
