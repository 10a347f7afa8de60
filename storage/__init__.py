"""Keeps traces and hands them back: RunStore, and export as CSV and Parquet. Knows mars_core.types and no screen."""

from storage.claims import Claim, ClaimRow
from storage.comparisons import StoredComparison
from storage.connected import database_file
from storage.errors import ClaimLost, StorageError
from storage.everything import write_everything
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
from storage.opening import TemporaryStore, open_or_set_aside
from storage.owners import Counts
from storage.results import StoredResult
from storage.rows import SCHEMA_VERSION
from storage.runs import RunRecord, StoredRun
from storage.scope import EVERYBODY
from storage.search import Choices, Found, Search, Sort
from storage.shares import Share
from storage.snapshot import Snapshot, check_snapshot, write_snapshot
from storage.store import RunStore
from storage.studies import StoredStudy, StudyHead, StudyProgress, WorkerProgress
from storage.sweeps import StoredSweep
from storage.votes import StoredVote
from storage.words import Choice, Preferred, Shared, Source

__all__ = [
    "EVERYBODY",
    "SCHEMA_VERSION",
    "Choice",
    "Choices",
    "Claim",
    "ClaimLost",
    "ClaimRow",
    "Counts",
    "Found",
    "Preferred",
    "RunRecord",
    "RunStore",
    "Search",
    "Share",
    "Shared",
    "Snapshot",
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
    "TemporaryStore",
    "WorkerProgress",
    "check_snapshot",
    "database_file",
    "open_or_set_aside",
    "write_everything",
    "write_nodes_csv",
    "write_nodes_parquet",
    "write_runs_csv",
    "write_runs_parquet",
    "write_snapshot",
    "write_tokens_csv",
    "write_tokens_parquet",
    "write_votes_csv",
    "write_votes_parquet",
]
