"""A database of release 0.1.0 is migrated with every value, completely or not at all."""

from __future__ import annotations

import gzip
import json
import math
import re
import shutil
import signal
import sqlite3
from contextlib import closing
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import create_engine, inspect, text

from evaluation.plan.plan import read_plan
from storage import RunStore, Search, Source
from storage.database import parse_url
from storage.schema import Base
from tests.data.release import POSTGRES, SQLITE
from tests.postgres import connection_to
from tests.unit.children import Child, dies_at
from tests.unit.storage.test_schema import differences

DATA = SQLITE.parent
KEPT = {  # what a store does not give back
    "shares": ("token_hash", "owner", "created_at", "comparison_id", "study_id"),
    "facets": ("comparison_id", "kind", "owner", "created_at"),
    "study_tasks": ("study_id", "task", "done_at", "comparison_ids"),
}
Rows = dict[str, list[dict[str, Any]]]


@pytest.fixture(params=["sqlite", "postgres"])
def released(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database that release 0.1.0 left."""
    if request.param == "sqlite":
        return f"sqlite:///{shutil.copy(SQLITE, tmp_path / 'runs.db')}"
    url: str = request.getfixturevalue("postgres_url")
    with connection_to(request.getfixturevalue("postgres_folder")) as connection:
        connection.execute(POSTGRES.read_text())
    return url


def rows(url: str) -> Rows:
    """Every row of every table but those of the full-text index, as the database has it."""
    engine = create_engine(parse_url(url))
    with engine.connect() as connection:
        names = [
            name
            for name in inspect(connection).get_table_names()
            if not name.startswith("comparison_")
        ]
        by_table = {
            name: [
                dict(row)
                for row in connection.exec_driver_sql(f"SELECT * FROM {name} ORDER BY 1").mappings()
            ]
            for name in names
        }
    engine.dispose()
    return by_table


def test_a_database_of_the_release_keeps_every_value(released: str) -> None:
    before = rows(released)
    with RunStore(released) as store:
        assert differences(store, Base.metadata) == []
        read, expected = contents(store), given_back("release-0.1.0")
        for key in read.keys() - {"votes", "followed"}:  # of PostgreSQL not all are there
            assert holds(read[key], expected[key]), key
        assert len(read["votes"]) == len(before["votes"]) > 0
        loaded = map(store.load, store.matching_ids(Search(limit=1000)))
        exact = [run.trace.config.environment.get("exact") for each in loaded for run in each.runs]
        assert exact.count("6 rows, 192 positions") == 1 and set(exact) > {None}
        if store.path:
            with store.read() as connection:
                assert connection.exec_driver_sql("PRAGMA foreign_key_check").all() == []
                assert connection.exec_driver_sql("PRAGMA integrity_check").scalar_one() == "ok"
                assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar_one() == 1
    after = rows(released)
    assert before.pop("sweeps") == after.pop("counterfactuals") == []
    assert {name: len(each) for name, each in after.items()} == {
        name: len(each) for name, each in before.items()
    }
    histories = [run["history"] for run in after["runs"]]
    counts = [len(json.loads(each) if isinstance(each, str) else each) for each in histories]
    assert [run["turn"] for run in after["runs"]] == counts
    for name, columns in KEPT.items():
        kept = [
            sorted(repr([row[column] for column in columns]) for row in each[name])
            for each in (before, after)
        ]
        assert kept[0] == kept[1] != []


def plain(value: Any) -> Any:
    """A value that a store gives, as JSON has it, without what is not stored."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {plain(str(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, str | datetime):
        return re.sub("[\0\ud800-\udfff]", "\ufffd", str(value))
    return value


def holds(value: Any, expected: Any) -> bool:
    """Whether it is as expected, but for fields that objects have got since."""
    if isinstance(expected, dict):
        return all(name in value and holds(value[name], each) for name, each in expected.items())
    if isinstance(expected, list):
        return len(value) == len(expected) and all(map(holds, value, expected))
    return type(value) is type(expected) and bool(value == expected)


def contents(store: RunStore) -> dict[str, Any]:
    """Everything that a store gives back."""
    loaded = [store.load(id_) for id_ in store.matching_ids(Search(limit=1000))]
    everything = {f"comparison {each.id}": asdict(each) for each in loaded}
    for head in store.studies():
        everything[f"study {head.id}"] = asdict(store.study(head.id))
        for name, rows in (("results", store.results), ("judgements", store.judgements)):
            everything[f"{name} {head.id}"] = list(map(asdict, rows(head.id)))
    runs = [run.id for each in loaded for run in each.runs]
    followed = store.counterfactuals(runs).items()
    everything["followed"] = {id_: list(map(asdict, tokens)) for id_, tokens in followed}
    everything["votes"] = list(map(asdict, store.votes()))
    return cast(dict[str, Any], plain(everything))


def given_back(name: str) -> dict[str, Any]:
    """What its own code read of a database: never edit one. Texts are those that can be stored
    now."""
    packed = (DATA / f"{name}.json.gz").read_bytes()
    return cast(dict[str, Any], plain(json.loads(gzip.decompress(packed))))


@pytest.mark.parametrize("name", ["release-0.1.0", "schema-0015"])
def test_what_an_earlier_version_gave_back_is_given_back(name: str, tmp_path: Path) -> None:
    path, packed = tmp_path / "runs.db", DATA / f"{name}.db.gz"
    earlier = gzip.decompress(packed.read_bytes()) if packed.exists() else SQLITE.read_bytes()
    path.write_bytes(earlier)
    expected = given_back(name)
    with RunStore(f"sqlite:///{path}") as store:
        read = contents(store)
        assert read.keys() == expected.keys()
        for key, value in expected.items():
            assert holds(read[key], value), key
        for each in map(store.load, store.matching_ids(Search(limit=1000))):
            for search in (Search(text=each.prompt.text), *(Search(tag=tag) for tag in each.tags)):
                assert each.id in store.matching_ids(search)
    with RunStore(f"sqlite:///{path}") as store:  # nothing is left to be changed
        assert contents(store) == read


def test_a_damaged_trace_is_left_as_it_is_and_hides_no_other(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    path.write_bytes(gzip.decompress((DATA / "schema-0015.db.gz").read_bytes()))
    with closing(sqlite3.connect(path)) as connection, connection:
        (data,) = connection.execute("SELECT data FROM run_traces ORDER BY run_id").fetchone()
        bad = data[:9] + bytes([data[9] ^ 4]) + data[10:]
        connection.execute("UPDATE run_traces SET data = ? WHERE data = ?", (bad, data))
    with RunStore(f"sqlite:///{path}") as store:
        kept = rows(f"sqlite:///{path}")["run_traces"]
        assert [row["data"] for row in kept if row["version"] == 1] == [bad]
        ids = [row["run_id"] for row in kept]
        assert len(store.traces(ids)) == len(ids) - 1 > 10 and len(store.damaged) == 1


def migrate_and_die(_pipe: object, url: str, statement: str) -> None:
    dies_at(statement, 1)
    RunStore(url)


@pytest.mark.parametrize(
    "statement",
    [
        *("UPDATE runs SET environment", "\nDROP TABLE shares", "\nDROP TABLE sweeps"),
        *("UPDATE studies SET plan", "UPDATE run_traces SET"),
    ],
)
def test_a_migration_that_was_killed_is_made_at_the_next_start(
    released: str, statement: str
) -> None:
    before = rows(released)
    child = Child(migrate_and_die, released, statement)
    assert (child.rest(), child.process.exitcode) == ([], -signal.SIGKILL)
    assert rows(released) == before
    with RunStore(released) as store:
        assert store.counts().runs and "sweeps" not in rows(released)


def test_studies_of_the_release_are_read_and_their_results_stay_with_their_tasks(
    released: str,
) -> None:
    """Tasks of a sweep were numbered by repeat, item, temperature. ``worker``: which one it was.
    Runs of sweeps become runs of studies."""
    names, lane = ("strict", "mars"), {"kind": "model", "model": None, "k": 5, "mode": "greedy"}
    plan = {
        "name": "sweep",
        "models": {"key": "bundled", "target": {"name": "t", "revision": None}, "head": None},
        "suites": [
            {"name": "a", "items": [{"id": id_, "turns": [id_]} for id_ in ("1", "2")]},
            {"name": "b", "items": [{"id": "3", "turns": ["three"]}]},
        ],
        "lanes": [
            {"rule": {"name": name, "parameters": {}}, "drafter": lane | {"tree": None}}
            for name in names
        ],
        "temperatures": [0.0, 0.5],
        "repeats": 2,
        "varied": "theta",
    }
    old = [(repeat, id_, at) for repeat in (0, 1) for id_ in ("1", "2", "3") for at in (0.0, 0.5)]
    engine = create_engine(parse_url(released))
    sweep, batch = "a" * 32, "b" * 32
    with engine.begin() as connection:
        for table in ("comparisons", "facets"):
            connection.exec_driver_sql(f"UPDATE {table} SET source = 'sweep'")
        for study, varied in ((sweep, "theta"), (batch, None)):
            values = {"id": study, "plan": json.dumps(plan | {"varied": varied})}
            connection.execute(
                text("INSERT INTO studies VALUES (:id, '2026-11-22 21:31:36', '', 12, :plan, '')"),
                values,
            )
            for task, what in enumerate(old):
                of = {"id": study, "task": task, "what": json.dumps(what)}
                connection.execute(
                    text("INSERT INTO study_tasks (study_id, task) VALUES (:id, :task)"), of
                )
                connection.execute(
                    text(
                        "INSERT INTO study_results (study_id, task, lane, created_at, worker, "
                        "execution_order, run_ids, data) VALUES "
                        "(:id, :task, 0, '2026-11-22 21:31:36', :what, 0, '[]', '{}')"
                    ),
                    of,
                )
    engine.dispose()
    with RunStore(released) as store:
        for study in (sweep, batch):
            read = read_plan(store.study(study).plan)
            results = store.results(study)
            assert len(results) == len(store.open_tasks(study)) == 12
            for result in results:
                task = read.task(result.task)
                what = [task.repeat, read.item(task).id, task.temperature]
                assert what == (json.loads(result.worker) if study == sweep else what)
            order = [json.loads(result.worker) for result in results]
            assert (order == list(map(list, old))) is (study == batch)
        assert {row["source"] for row in store.find(Search(limit=100)).rows} == {Source.STUDY}
        assert store.find(Search(without_batches=True)).total == 0


def test_what_recorded_changes_for_backups_goes(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    shutil.copy(SQLITE, path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE backup_place (place TEXT)")
        connection.execute(
            "CREATE TABLE backup_changes (seq INTEGER PRIMARY KEY, name TEXT, key TEXT, UNIQUE (name, key))"
        )
        for name, key in {
            "comparisons": "id",
            "runs": "id",
            "shares": "token_hash",
            "sweeps": "id",
        }.items():
            change = f"INSERT OR REPLACE INTO backup_changes (name, key) VALUES ('{name}', json_array(NEW.{key}))"
            connection.execute(
                f"CREATE TRIGGER backup_{name}_UPDATE AFTER UPDATE ON {name} BEGIN {change}; END"
            )
    with RunStore(f"sqlite:///{path}") as store, store.read() as connection:
        left = "SELECT name FROM sqlite_master WHERE name LIKE 'backup%'"
        assert connection.exec_driver_sql(left).all() == []
        assert connection.exec_driver_sql("SELECT count(*) FROM runs").scalar_one()
