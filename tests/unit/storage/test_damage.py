"""A damaged row hides itself and no other, and is named."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from zipfile import ZipFile

import pyarrow.parquet as pq
import pytest

from storage import RunStore, Search, write_everything
from storage.export.tables import EXPORTS
from storage.schema import Base
from tests.data.release import SQLITE
from tests.unit.storage.damage import damage_column, damaged_rows
from tests.unit.storage.test_counterfactuals import TWO

JSON = ("comparisons", "studies", "shares")
Files = dict[str, list[str]]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with rows in every table."""
    path = Path(shutil.copy(SQLITE, tmp_path_factory.mktemp("good") / "runs.db"))
    with RunStore(f"sqlite:///{path}") as store:
        for id_ in [row["id"] for row in store.find(Search(limit=1000)).rows]:
            for run in store.load(str(id_)).runs[:1]:
                store.save_counterfactuals(run.id, [TWO])
    return path


@pytest.fixture
def path(good: Path, tmp_path: Path) -> Path:
    """A copy of it to be damaged."""
    return Path(shutil.copy(good, tmp_path / "runs.db"))


@pytest.fixture(scope="module")
def before(good: Path) -> tuple[Files, set[str]]:
    """The rows of its exports, and the ids of its list."""
    with RunStore(f"sqlite:///{good}") as store:
        files, readme = everything(store, good.with_name("before.zip"))
        assert "damaged form" not in readme and not store.damaged
        return files, {row["id"] for row in store.find(Search(limit=100)).rows}


def everything(store: RunStore, path: Path) -> tuple[Files, str]:
    """The rows of every file of an export, and its README."""
    write_everything(store, path)
    with ZipFile(path) as archive:
        files = {name: archive.read(f"{name}.csv").decode().splitlines() for name in EXPORTS}
        for name in EXPORTS:
            table = pq.read_table(io.BytesIO(archive.read(f"{name}.parquet")))
            files[f"{name}.parquet"] = list(map(repr, table.to_pylist()))
        for name in JSON:
            files[name] = list(map(repr, json.loads(archive.read(f"{name}.json"))))
        return files, archive.read("README.txt").decode()


@pytest.mark.parametrize("table", Base.metadata.tables)
def test_a_damaged_row_of_any_table_hides_itself_and_is_named(
    table: str, path: Path, before: tuple[Files, set[str]], tmp_path: Path
) -> None:
    rows_before, listed = before
    damaged = damaged_rows(path, table)
    with RunStore(f"sqlite:///{path}") as store:
        after, readme = everything(store, tmp_path / "after.zip")
        page = store.find(Search(limit=100))
        assert len(store.matching_ids(Search(limit=100))) == page.total
        assert page.total == len(page.rows) + page.unreadable
        left = {row["id"] for row in page.rows}
        assert left <= listed and len(left) >= len(listed) - 1
    gone = {name: set(rows) - set(after[name]) for name, rows in rows_before.items()}
    assert all(set(rows) <= set(rows_before[name]) for name, rows in after.items())
    runs = {line.split(",")[3] for line in gone["runs"]}
    if any(gone.values()):
        assert damaged and "damaged form" in readme and store.damaged
        assert all(name in readme for name in store.left_out)
        assert len(runs) <= 2 and all(len(gone[name]) <= 2 for name in JSON)
        assert all(after[name] for name in (*EXPORTS, *JSON) if len(rows_before[name]) > 2)


ALL, KEY = [*Base.metadata.tables], "VARCHAR(32)"
KINDS = {str(each.type) for table in Base.metadata.tables.values() for each in table.columns}


@pytest.mark.parametrize(
    ("kind", "tables"),
    [*((kind, ALL) for kind in sorted(KINDS - {KEY})), *((KEY, [name]) for name in ALL)],
)
def test_no_kind_of_value_blocks_what_is_read(
    kind: str, tables: list[str], path: Path, tmp_path: Path
) -> None:
    """In rows that do not belong together, keys in one table: lists, exports and results have the
    other rows."""
    for name in tables:
        columns = [each.name for each in Base.metadata.tables[name].columns]
        of_kind = [each for each in columns if str(Base.metadata.tables[name].c[each].type) == kind]
        for column in of_kind[-1:]:
            damage_column(path, name, column, last=name not in ("comparisons", "studies"))
    with RunStore(f"sqlite:///{path}") as store:
        files, _ = everything(store, tmp_path / "all.zip")
        assert all(files[name] for name in (*EXPORTS, "comparisons", "studies"))
        assert len(store.find(Search(limit=100)).rows) > 10
        assert store.votes() and store.vote_counts() and store.studies()
        store.shares()
        for study in store.studies():
            store.results(study.id), store.judgements(study.id)
