"""Parquet exports: with the rows and columns of CSV, whole or not at all. That they are lossless is in test_importing.py."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from storage import RunStore, StorageError, write_parquet
from tests.traces import make_trace
from tests.unit.storage.exports import parsed, save, tokens_csv


def test_parquet_has_the_columns_and_rows_of_csv(
    store: RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.export.ROWS_A_GROUP", 50)
    monkeypatch.setattr("storage.export.tables.TOKENS_A_TABLE", 50)
    save(store, make_trace(new_tokens=100), make_trace(rule="mars", new_tokens=100))
    write_parquet("tokens", store, tmp_path / "tokens.parquet")
    file = pq.ParquetFile(tmp_path / "tokens.parquet")
    rows = parsed(tokens_csv(store))
    assert file.schema_arrow.names == list(rows[0])
    assert file.metadata.num_rows == len(rows)
    assert file.num_row_groups == 2
    assert file.schema_arrow.metadata[b"schema_version"] == b"6"
    file.close()


def test_failed_parquet_leaves_no_file(sqlite_store: RunStore, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"The Parquet file was not written: .*missing"):
        write_parquet("runs", sqlite_store, tmp_path / "missing" / "runs.parquet")
    (tmp_path / "taken.parquet").mkdir()
    with pytest.raises(StorageError, match="The Parquet file was not written"):
        write_parquet("runs", sqlite_store, tmp_path / "taken.parquet")
    assert list(tmp_path.glob("*.part")) == []
