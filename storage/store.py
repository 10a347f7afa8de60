"""RunStore: saves runs atomically and reads them back."""

from __future__ import annotations

from storage.owners import Owners
from storage.runs.runs import Runs
from storage.runs.search import Lists
from storage.runs.votes import Votes
from storage.studies.claims import Claims
from storage.studies.results import Results
from storage.studies.studies import Studies


class RunStore(Runs, Lists, Votes, Studies, Claims, Results, Owners):
    """The runs and studies in one database: ``sqlite:////folder/file.db`` or ``postgresql://…``; None: a file in the data folder.

    Thread-safe; writes are serialised. Every method raises StorageError when the database fails, and then nothing has been changed.
    """
