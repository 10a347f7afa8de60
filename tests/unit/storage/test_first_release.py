"""A database that the first release left (tests/data/first_release.py) is brought up to date, and keeps every value."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mars_core.types import Status, StopReason
from storage import RunStore, Search, write_snapshot
from tests.data.first_release import HOSTILE, PROMPT
from tests.unit.storage.exports import runs_csv, tokens_csv

KEPT = Path(__file__).parents[2] / "data" / "first-release.db"
SHA256 = "141d4a405b863666ca097a49ac652d6799aa0c6fe1af62ee6da1acc72ecd9c35"
ORDER = {"comparisons": "id", "runs": "id", "steps": "run_id, step", "tokens": "run_id, step, ordinal"}


def rows(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Table → its rows, as SQLite has them."""
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        return {
            table: [dict(row) for row in connection.execute(f"SELECT * FROM {table} ORDER BY {order}")]
            for table, order in ORDER.items()
        }


@pytest.fixture
def database(tmp_path: Path) -> Path:
    assert hashlib.sha256(KEPT.read_bytes()).hexdigest() == SHA256, "the kept file is never to change"
    return Path(shutil.copy(KEPT, tmp_path / "runs.db"))


def test_first_release_keeps_every_value(database: Path) -> None:
    before = rows(database)
    with RunStore(f"sqlite:///{database}") as store:
        assert store.count() == 5
    after = rows(database)
    assert {table: len(found) for table, found in after.items()} == {
        "comparisons": 5,
        "runs": 6,
        "steps": 25,
        "tokens": 83,
    }
    gone = {table: before[table][0].keys() - after[table][0].keys() for table in ORDER}
    assert gone == {"comparisons": set(), "runs": set(), "steps": {"drafted_ids"}, "tokens": set()}
    for run in before["runs"]:
        run["rule"] = "none" if run["drafter"] == "none" else run["rule"]
    for table in ORDER:
        for old, new in zip(before[table], after[table], strict=True):
            assert {name: old[name] for name in old.keys() & new.keys()} == {
                name: new[name] for name in old.keys() & new.keys()
            }
    for old, new in zip(before["steps"], after["steps"], strict=True):
        assert [node[0] for node in json.loads(new["nodes"])] == json.loads(old["drafted_ids"])


def test_first_release_is_read_searched_and_written_out(database: Path, tmp_path: Path) -> None:
    with RunStore(f"sqlite:///{database}") as store:
        every = [store.load(id_) for id_ in store.comparisons()["id"]]
        loaded = {item.prompt.text: item for item in every}
        hostile = loaded[PROMPT].runs[0].trace
        pieces = {token.piece for step in hostile.steps for token in step.tokens}
        assert pieces <= {*HOSTILE}
        assert {"\x00", "\ud800␛"} <= pieces
        assert hostile.text == "".join(
            token.piece for step in hostile.steps for token in step.tokens if token.outcome != "rejected"
        )
        assert {item.runs[-1].trace.status for item in every} == {*Status}
        assert loaded[""].runs[0].trace.stop_reason in StopReason
        assert all(step.nodes for step in hostile.steps if step.drafted)
        assert store.find(Search(text="STRASSE 100%")).total == 1
        assert runs_csv(store).count("\r\n") >= 7
        assert len(tokens_csv(store).split("\r\n")) >= 84
        assert store.of("anybody").count() == 0  # it is everybody's
    assert write_snapshot(database, tmp_path / "copy.db").comparisons == 5
