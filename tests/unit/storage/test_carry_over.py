"""A database that the last version with a row a token left (tests/data/before_columns.py) is carried over, and keeps every value."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import DateTime, Double, MetaData, create_engine, insert, inspect, select
from sqlalchemy.dialects.postgresql import JSONB

from storage import RunStore, Shared, StorageError
from storage.database import parse_url
from storage.migrations import carry_over
from tests.data.before_columns import OWNER, said

DATA = Path(__file__).parents[2] / "data"
WAS = json.loads((DATA / "before-columns.json").read_text())


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return Path(shutil.copy(DATA / "before-columns.db", tmp_path / "runs.db"))


def scalars(path: Path, statement: str) -> list[object]:
    with closing(sqlite3.connect(path)) as connection:
        return [row[0] for row in connection.execute(statement)]


def is_as_it_was(path: Path) -> None:
    with RunStore(f"sqlite:///{path}") as store:
        assert said(store) == WAS["everybody"]
        assert said(store.of(OWNER)) == WAS[OWNER]


def test_everything_is_as_it_was(
    database: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And progress is told."""
    monkeypatch.setattr(carry_over, "RUNS_A_WRITE", 1)
    runs = scalars(database, "SELECT id FROM runs ORDER BY id")
    with caplog.at_level("INFO", "mars.storage"):
        is_as_it_was(database)
    assert "10 runs done" in caplog.text
    tables = scalars(database, "SELECT name FROM sqlite_master WHERE type = 'table'")
    assert "run_traces" in tables and not {"steps", "tokens"} & {*tables}
    assert scalars(database, "SELECT run_id FROM run_traces ORDER BY run_id") == runs
    assert scalars(database, "PRAGMA freelist_count") == [0]


def test_deleted_comparisons_and_claims_are_kept_too(database: Path) -> None:
    deleted = scalars(database, "SELECT id FROM comparisons WHERE deleted_at IS NOT NULL")
    tasks = "SELECT group_concat(task || ifnull(token, '') || ifnull(worker, '') || comparison_ids) FROM study_tasks"
    claims = scalars(database, tasks)
    with RunStore(f"sqlite:///{database}") as store:
        for comparison_id in map(str, deleted):
            store.restore(comparison_id)
            (run,) = store.load(comparison_id).runs
            assert run.trace.config.prompt.text == "deleted" and len(run.trace.tokens) == 6
        assert all(store.shared(share.kind, share.object_id) for share in store.shares() if share.kind is Shared.STUDY)
    assert scalars(database, tasks) == claims


@pytest.mark.parametrize("dies", [1, 3])
def test_it_goes_on_where_it_was_killed(database: Path, monkeypatch: pytest.MonkeyPatch, dies: int) -> None:
    monkeypatch.setattr(carry_over, "RUNS_A_WRITE", 4)
    carry, calls = carry_over._carry, [0]

    def dying(*arguments: object) -> None:
        calls[0] += 1
        if calls[0] == 4 * dies + 2:
            raise KeyboardInterrupt
        carry(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(carry_over, "_carry", dying)
    with pytest.raises(KeyboardInterrupt):
        RunStore(f"sqlite:///{database}")
    assert len(scalars(database, "SELECT run_id FROM run_traces")) == 4 * dies
    assert scalars(database, "SELECT version_num FROM alembic_version") == ["0006-0007"]
    is_as_it_was(database)
    assert calls[0] == 1 + len(scalars(database, "SELECT id FROM runs")) + 1


def test_an_earlier_schema_is_refused_and_says_what_to_do(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '0005'")
    with pytest.raises(StorageError, match="Open it once with the version"):
        RunStore(f"sqlite:///{database}")
    assert scalars(database, "SELECT count(*) FROM tokens") != [0]


def test_a_server_is_carried_over_too(database: Path, postgres_url: str) -> None:
    copied = MetaData()
    old, server = create_engine(f"sqlite:///{database}"), create_engine(parse_url(postgres_url))
    with old.connect() as source, server.begin() as target:
        copied.reflect(source)
        for column in (column for table in copied.sorted_tables for column in table.columns):
            column.type = next(
                (kind for kind in (DateTime(timezone=True), Double()) if isinstance(column.type, type(kind))),
                column.type,
            )
        copied.create_all(target)
        for table in copied.sorted_tables:
            if rows := [dict(row) for row in source.execute(select(table)).mappings()]:
                target.execute(insert(table), rows)
    for engine in (old, server):
        engine.dispose()
    with RunStore(postgres_url) as store:
        assert said(store) == WAS["everybody"]
        assert said(store.of(OWNER)) == WAS[OWNER]
        with store.read() as connection:
            kinds = {column["name"]: column["type"] for column in inspect(connection).get_columns("comparisons")}
    assert isinstance(kinds["tags"], JSONB)
