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


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database with rows in every table."""
    path = Path(shutil.copy(SQLITE, tmp_path / "runs.db"))
    with RunStore(f"sqlite:///{path}") as store:
        for id_ in [row["id"] for row in store.find(Search(limit=1000)).rows]:
            for run in store.load(str(id_)).runs[:1]:
                store.save_counterfactuals(run.id, [TWO])
    return path


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
    table: str, path: Path, tmp_path: Path
) -> None:
    with RunStore(f"sqlite:///{path}") as store:
        before, readme = everything(store, tmp_path / "before.zip")
        listed = {row["id"] for row in store.find(Search(limit=100)).rows}
        assert "damaged form" not in readme and not store.damaged
    damaged = damaged_rows(path, table)
    with RunStore(f"sqlite:///{path}") as store:
        after, readme = everything(store, tmp_path / "after.zip")
        left = {row["id"] for row in store.find(Search(limit=100)).rows}
        assert left <= listed and len(left) >= len(listed) - 1
    gone = {name: set(rows) - set(after[name]) for name, rows in before.items()}
    assert all(set(rows) <= set(before[name]) for name, rows in after.items())
    runs = {line.split(",")[3] for line in gone["runs"]}
    if any(gone.values()):
        assert damaged and "damaged form" in readme and store.damaged
        assert all(name in readme for name in store.left_out)
        assert len(runs) <= 2 and all(len(gone[name]) <= 2 for name in JSON)
        assert all(after[name] for name in (*EXPORTS, *JSON) if len(before[name]) > 2)


@pytest.mark.parametrize("table", Base.metadata.tables)
def test_no_kind_of_value_blocks_what_is_read(table: str, path: Path, tmp_path: Path) -> None:
    """Of every type of column one, keys too: lists, exports and results have the other rows."""
    columns = {str(each.type): each.name for each in Base.metadata.tables[table].columns}
    for column in columns.values():
        damaged = Path(shutil.copy(path, tmp_path / "damaged.db"))
        damage_column(damaged, table, column)
        with RunStore(f"sqlite:///{damaged}") as store:
            files, _ = everything(store, tmp_path / "all.zip")
            assert all(files[name] for name in (*EXPORTS, "comparisons", "studies"))
            assert len(store.find(Search(limit=100)).rows) > 10
            assert store.votes() and store.vote_counts() and store.studies()
            store.shares()
            for study in store.studies():
                store.results(study.id), store.judgements(study.id)
