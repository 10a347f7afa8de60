"""The tables of the database, their column types, and the spelling of texts in them."""

from storage.schema.columns import Base
from storage.schema.runs import Choice, Comparison, Facet, Run, RunTrace, Source, Sweep, Vote
from storage.schema.studies import Judgement, Link, Preferred, Shared, Study, StudyResult, StudyTask

__all__ = [
    "Base",
    "Choice",
    "Comparison",
    "Facet",
    "Judgement",
    "Link",
    "Preferred",
    "Run",
    "RunTrace",
    "Shared",
    "Source",
    "Study",
    "StudyResult",
    "StudyTask",
    "Sweep",
    "Vote",
]
