"""Keeps traces and hands them back: RunStore, and export as CSV and Parquet. Knows mars_core.types and no screen."""

from storage.errors import StorageError
from storage.export import (
    write_nodes_csv,
    write_nodes_parquet,
    write_runs_csv,
    write_runs_parquet,
    write_tokens_csv,
    write_tokens_parquet,
)
from storage.store import RunStore, StoredComparison, StoredRun

__all__ = [
    "RunStore",
    "StorageError",
    "StoredComparison",
    "StoredRun",
    "write_nodes_csv",
    "write_nodes_parquet",
    "write_runs_csv",
    "write_runs_parquet",
    "write_tokens_csv",
    "write_tokens_parquet",
]
