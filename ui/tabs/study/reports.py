"""Reports of studies as the page needs them: measured once, cached while nothing new has ended.

What is cached is returned only through a store that has the study.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import copy
from threading import Lock
from typing import NamedTuple

from evaluation.report.example import EXAMPLE, example
from evaluation.report.values import Report
from storage import RunStore
from ui.public.latest import Latest

MOST_CACHED, MOST_LOCKED = 4, 1000  # reports; studies
PAUSE_S = 20.0  # between two measurings of a study that runs
Measure = Callable[[RunStore, str], Report]


class Cached(NamedTuple):
    """A report and when it was measured. ``at``: by the clock of ``Reports``."""

    report: Report
    at: float


class Reports:
    """Measures studies, each of its threads at its own time; one study is never measured twice at once."""

    def __init__(
        self, store: RunStore, measure: Measure | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.store = store
        self._measure = measure or _measured
        self._clock = clock
        self._cached = Latest[Cached](MOST_CACHED)
        self._locks = Latest[Lock](MOST_LOCKED)

    def of(self, store: RunStore) -> Reports:
        """The same reports for whoever reads through ``store``."""
        other = copy(self)
        other.store = store
        return other

    def fresh(self, study_id: str) -> Report:
        """Measured now: votes may have come since. Raises StorageError, and ValueError for a study of another version."""
        if study_id == EXAMPLE:
            return example()
        self.store.study(study_id)
        with self._locks.first(study_id, Lock()):
            return self._remember(study_id)

    def known(self, study_id: str) -> Report:
        """The last one that was measured, else a fresh one. Raises as ``fresh``."""
        if study_id == EXAMPLE:
            return example()
        self.store.study(study_id)
        with self._locks.first(study_id, Lock()):
            cached = self._cached.get(study_id)
            return cached.report if cached else self._remember(study_id)

    def newer(self, study_id: str, done: int) -> Report | None:
        """A new one where other tasks have ended than it knows, but not too often; else None. Raises as ``fresh``."""
        self.store.study(study_id)
        with self._locks.first(study_id, Lock()):
            cached = self._cached.get(study_id)
            early = cached and done < cached.report.plan.tasks and self._clock() < cached.at + PAUSE_S
            return None if cached and (early or cached.report.tasks_done == done) else self._remember(study_id)

    def _remember(self, study_id: str) -> Report:
        report = self._measure(self.store, study_id)
        self._cached.put(study_id, Cached(report, self._clock()))
        return report


def _measured(store: RunStore, study_id: str) -> Report:
    """SciPy is imported with the first report, not with the page."""
    from evaluation.report.measure import measure

    return measure(store, study_id)
