"""Runs of lm-eval in the store, where there is one: each a comparison of its own with one run."""

from __future__ import annotations

from mars_core.types import Trace
from storage import RunStore, Source


class Keep:
    """Writes to the database of a URL; None keeps nothing."""

    def __init__(self, url: str | None) -> None:
        self._store = None if url is None else RunStore(url)

    def run(self, trace: Trace) -> str | None:
        """The id of the run, once it is saved. Raises StorageError."""
        if self._store is None:
            return None
        comparison = self._store.new_comparison(trace.config.prompt, source=Source.STUDY)
        return self._store.save_run(comparison, trace, lane=0, order=0)
