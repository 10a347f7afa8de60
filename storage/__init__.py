"""Keeps traces and hands them back: RunStore, and export as CSV and Parquet. Knows mars_core.types and no screen."""

from storage.claims import Claim, ClaimRow
from storage.comparisons import StoredComparison
from storage.errors import ClaimLost, StorageError
from storage.export import (
    write_nodes_csv,
    write_nodes_parquet,
    write_runs_csv,
    write_runs_parquet,
    write_tokens_csv,
    write_tokens_parquet,
    write_votes_csv,
    write_votes_parquet,
)
from storage.judgements import StoredJudgement
from storage.results import StoredResult
from storage.rows import SCHEMA_VERSION
from storage.runs import RunRecord, StoredRun
from storage.search import Choices, Found, Search, Sort
from storage.store import RunStore
from storage.studies import StoredStudy, StudyHead, StudyProgress, WorkerProgress
from storage.sweeps import StoredSweep
from storage.votes import StoredVote
from storage.words import Choice, Preferred, Source

__all__ = [
    "SCHEMA_VERSION",
    "Choice",
    "Choices",
    "Claim",
    "ClaimLost",
    "ClaimRow",
    "Found",
    "Preferred",
    "RunRecord",
    "RunStore",
    "Search",
    "Sort",
    "Source",
    "StorageError",
    "StoredComparison",
    "StoredJudgement",
    "StoredResult",
    "StoredRun",
    "StoredStudy",
    "StoredSweep",
    "StoredVote",
    "StudyHead",
    "StudyProgress",
    "WorkerProgress",
    "write_nodes_csv",
    "write_nodes_parquet",
    "write_runs_csv",
    "write_runs_parquet",
    "write_tokens_csv",
    "write_tokens_parquet",
    "write_votes_csv",
    "write_votes_parquet",
]
