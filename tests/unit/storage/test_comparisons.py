"""The table of comparisons: latest first, in pages, without touching their traces; and records:
runs without steps and tokens."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event, insert

from mars_core.types import PromptConfig, Status
from storage import RunStore, Search
from storage.index import reindex
from storage.runs.records import prompt_row, run_row
from storage.schema import ComparisonRow, RunRow
from tests.traces import make_trace
from tests.unit.storage.exports import failing
from tests.unit.storage.studying import worked_off


def fill(store: RunStore, count: int) -> list[str]:
    """``count`` comparisons of two runs, a second apart, latest last; their ids."""
    trace, start = make_trace(rule="mars", new_tokens=20), datetime(2026, 1, 1, tzinfo=UTC)
    ids = [uuid.uuid4().hex for _ in range(count)]
    prompt = prompt_row(trace.config.prompt)
    with store._write("not filled") as connection:
        comparisons = [
            {"id": id_, "created_at": start + timedelta(seconds=n), **prompt}
            for n, id_ in enumerate(ids)
        ]
        connection.execute(insert(ComparisonRow), comparisons)
        keys = [(id_, lane) for id_ in ids for lane in range(2)]
        run = {"created_at": start, **run_row(trace)}
        connection.execute(
            insert(RunRow),
            [
                {"id": uuid.uuid4().hex, "comparison_id": i, "lane": n, "execution_order": n, **run}
                for i, n in keys
            ],
        )
        reindex(connection, ids)
    return ids


@contextmanager
def statements() -> Iterator[list[str]]:
    """Collects the SELECTs that are executed meanwhile."""
    executed: list[str] = []

    def note(_connection: Connection, _cursor: object, statement: str, *_rest: object) -> None:
        executed.extend([statement] if statement.lstrip().startswith("SELECT") else [])

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield executed
    finally:
        event.remove(Engine, "before_cursor_execute", note)


def plans_of(store: RunStore, read: Callable[[], object]) -> list[list[str]]:
    """How SQLite goes about each SELECT of ``read``."""
    with statements() as executed:
        read()
    plans = []
    with store.read() as connection:
        for statement in executed:
            parameters = tuple(range(statement.count("?")))
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
            plans.append([row["detail"] for row in plan.mappings()])
    return plans


def test_too_long_notes_are_refused_and_change_nothing(sqlite_store: RunStore) -> None:
    id_ = sqlite_store.new_comparison(PromptConfig("x"))
    tags = [f"{n:040}" for n in range(20)]
    sqlite_store.annotate(id_, name="n" * 200, tags=tags, comment="c" * 10_000)
    before = sqlite_store.load(id_)
    longer: tuple[tuple[dict[str, Any], str], ...] = (
        ({"name": "n" * 201}, "200"),
        ({"tags": ["t" * 41]}, "40"),
        ({"tags": ["t", *tags]}, "20"),
        ({"comment": "c" * 10_001}, "10,000"),
    )
    for notes, most in longer:
        with failing(f"may have {most} .*at most, not"):
            sqlite_store.annotate(id_, **notes)
        assert sqlite_store.load(id_) == before


def test_more_than_a_statement_may_name_are_read_in_order(
    sqlite_store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.connection.IN_A_STATEMENT", 2)
    ids = fill(sqlite_store, 7)
    with statements() as executed:
        assert [row["id"] for row in sqlite_store.find(Search()).rows] == ids[::-1]
    assert len([each for each in executed if "FROM runs" in each]) == 4
    study = sqlite_store.new_study("", {}, 3)
    tasks = [worked_off(sqlite_store, study).task for _ in range(3)]
    lanes = [(each.task, each.lane) for each in sqlite_store.results(study)]
    assert lanes == [(task, lane) for task in tasks for lane in range(2)]


def test_one_row_a_comparison(store: RunStore) -> None:
    mars = make_trace(rule="mars", theta=0.84, new_tokens=30, status=Status.CANCELLED)
    traces = (make_trace(new_tokens=30), mars, make_trace(rule="none", new_tokens=3))
    comparison_id = store.new_comparison(mars.config.prompt)
    for lane in (1, 2, 0):
        store.save_run(comparison_id, traces[lane], lane=lane, order=lane)
    store.annotate(comparison_id, name="A\x01 name", tags=["␛", "a"], comment="\x1b")
    (row,) = store.find(Search()).rows
    assert row["created_at"].tzinfo is UTC
    for name in ("new_tokens", "tau", "tokens_per_s", "ttft_s", "wall_s", "relaxed_share"):
        assert row[name] == tuple(getattr(each.summary, name) for each in traces)
    assert (row["id"], row["source"], row["target"]) == (comparison_id, "compare", "demo/target")
    assert (row["name"], row["tags"], row["comment"]) == ("A\\u0001 name", ("a", "␛"), "\\u001b")
    assert row["rules"] == ("strict", "mars(theta=0.84)", "none")
    assert row["status"] == ("completed", "cancelled", "completed")
    assert row["run_ids"] == tuple(run.id for run in store.load(comparison_id).runs)
    configs = [each.config for each in traces]
    assert (row["k"], row["seed"]) == (tuple(each.drafter.k for each in configs), (0, 0, 0))
    assert (row["drafter"][1], row["tree_tokens"]) == ("model", (None,) * 3)
