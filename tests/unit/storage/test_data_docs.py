"""docs/reference/columns.md lists the columns that the exports have; the queries of docs/data.md run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import duckdb
import pytest

from storage import RunStore, Search, write_parquet
from storage.export.columns import described
from storage.export.tables import EXPORTS
from tests.traces import make_trace
from tests.unit.storage.exports import save

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "data.md").read_text(encoding="utf-8")


def code(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def files(sqlite_store: RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunStore:
    """The working folder has the exports of two runs."""
    save(sqlite_store, make_trace(rule="strict"), make_trace(rule="mars", seed=3))
    write_parquet("runs", sqlite_store, tmp_path / "runs.parquet")
    write_parquet("tokens", sqlite_store, tmp_path / "tokens.parquet")
    write_parquet("nodes", sqlite_store, tmp_path / "nodes.parquet")
    monkeypatch.chdir(tmp_path)
    return sqlite_store


def test_every_column_is_described() -> None:
    columns = (DOCS / "reference" / "columns.md").read_text(encoding="utf-8")
    assert columns.endswith(described())
    for export in EXPORTS.values():
        assert export.schema.names == [column.name for column in export.columns]
        assert all(column.meaning for column in export.columns)


@pytest.mark.usefixtures("files")
def test_pandas_reads_the_files(capsys: pytest.CaptureFixture[str]) -> None:
    exec(code("python")[0], {})
    printed = capsys.readouterr().out
    assert "mars" in printed and "strict" in printed


def test_duckdb_reads_the_files(files: RunStore) -> None:
    (query,) = code("sql")
    rows: list[Any] = duckdb.sql(query).fetchall()
    runs = [
        run.trace
        for id_ in files.matching_ids(Search(limit=1000))
        for run in files.load(str(id_)).runs
    ]
    assert [(row[0], row[3]) for row in rows] == sorted(
        (run.config.rule.name, run.summary.drafted) for run in runs
    )
    assert all(0 < row[2] < 1 for row in rows)
