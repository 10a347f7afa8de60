"""Runs and studies in a database: RunStore, and export as CSV and Parquet."""

from storage.database import database_file, url_of
from storage.errors import ResultExists, StorageError
from storage.export import write_csv, write_parquet
from storage.export.everything import write_everything
from storage.opening import TemporaryStore, open_or_set_aside
from storage.runs.runs import RunRecord
from storage.runs.search import FilterChoices, Search, SearchPage, Sort
from storage.runs.stored import Repeat, StoredComparison, StoredRun
from storage.runs.votes import StoredVote, VoteCount
from storage.schema import Choice, Preferred, Shared, Source
from storage.scope import EVERYBODY
from storage.shares import Share
from storage.store import RunStore, StoreCounts
from storage.studies.judgements import StoredJudgement
from storage.studies.results import StoredResult
from storage.studies.studies import StoredStudy, StudyHead, StudyProgress

__all__ = [
    "EVERYBODY",
    "Choice",
    "FilterChoices",
    "Preferred",
    "Repeat",
    "ResultExists",
    "RunRecord",
    "RunStore",
    "Search",
    "SearchPage",
    "Share",
    "Shared",
    "Sort",
    "Source",
    "StorageError",
    "StoreCounts",
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
    "database_file",
    "open_or_set_aside",
    "url_of",
    "write_csv",
    "write_everything",
    "write_parquet",
]
