"""Runs and studies in a database: RunStore, and export as CSV and Parquet."""

from storage.database import database_file
from storage.errors import ClaimLost, StorageError
from storage.export import write_csv, write_parquet
from storage.export.everything import write_everything
from storage.opening import TemporaryStore, open_or_set_aside
from storage.runs.comparisons import Repeat, RunRecord, StoredComparison, StoredRun
from storage.runs.search import Choices, Found, Search, Sort
from storage.runs.votes import StoredVote, VoteCount
from storage.schema import Choice, Preferred, Shared, Source
from storage.scope import EVERYBODY
from storage.shares import Share
from storage.store import Counts, RunStore
from storage.studies.claims import Claim
from storage.studies.results import StoredJudgement, StoredResult
from storage.studies.studies import StoredStudy, StudyHead, StudyProgress, WorkerProgress

__all__ = [
    "EVERYBODY",
    "Choice",
    "Choices",
    "Claim",
    "ClaimLost",
    "Counts",
    "Found",
    "Preferred",
    "Repeat",
    "RunRecord",
    "RunStore",
    "Search",
    "Share",
    "Shared",
    "Sort",
    "Source",
    "StorageError",
    "StoredComparison",
    "StoredJudgement",
    "StoredResult",
    "StoredRun",
    "StoredStudy",
    "StoredVote",
    "StudyHead",
    "StudyProgress",
    "TemporaryStore",
    "VoteCount",
    "WorkerProgress",
    "database_file",
    "open_or_set_aside",
    "write_csv",
    "write_everything",
    "write_parquet",
]
