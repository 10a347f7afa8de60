"""Reports of studies as the page needs them: measured once, cached while nothing new has ended;
and as downloads: the HTML file, its CSV files, and all of them with Markdown in one ZIP.

What is cached is returned only through a store that has the study.
"""

from __future__ import annotations

import io
import time
import zipfile
from collections.abc import Callable
from copy import copy
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from display.render import html
from evaluation.report.document.build import document
from evaluation.report.example import EXAMPLE, example
from evaluation.report.files import TABLES, write_report
from evaluation.report.texts import worst_texts
from evaluation.report.values import Report
from storage import RunStore
from storage.export import csv_text
from ui.jobs.services import Services
from ui.kit.address import ID
from ui.kit.responses import attachment
from ui.public.latest import Latest
from ui.sharing import store_for

MOST_CACHED, MOST_LOCKED = 4, 1000  # reports; studies
# Between two measurings of a study that runs: seconds at least, and how often the time that one takes.
PAUSE_S, PAUSES = 2.0, 9


class Cached(NamedTuple):
    """A report, and when it may be measured anew, by the monotonic clock."""

    report: Report
    until: float


def measured(store: RunStore, study_id: str) -> Report:
    """SciPy is imported with the first report, not with the page."""
    from evaluation.report.measure import measure

    return measure(store, study_id)


class StudyReports:
    """Measures studies, each of its threads at its own time; one study is never measured twice at
    once."""

    def __init__(self, store: RunStore) -> None:
        self.store = store
        self._cached = Latest[Cached](MOST_CACHED)
        self._locks = Latest[Lock](MOST_LOCKED)

    def of(self, store: RunStore) -> StudyReports:
        """Return the same reports for the reader of ``store``."""
        other = copy(self)
        other.store = store
        return other

    def measured_again(self, study_id: str) -> Report:
        """Measured now: votes may have come since. Raises StorageError, and ValueError for a study
        of another version."""
        return self._report(study_id, lambda _: False)[0]

    def known(self, study_id: str) -> Report:
        """Return the last one that was measured, else a new one. Raises as ``measured_again``."""
        return self._report(study_id, lambda _: True)[0]

    def newer(self, study_id: str) -> Report | None:
        """Return a new one where more runs have ended than it knows, but not too often; else None.
        Raises as ``measured_again``."""
        progress = self.store.study_progress(study_id)

        def recent(cached: Cached) -> bool:
            early = progress.done < progress.tasks and time.monotonic() < cached.until
            known = cached.report.tasks_done, cached.report.results
            return early or known == (progress.done, progress.results)

        report, is_new = self._report(study_id, recent)
        return report if is_new else None

    def _report(self, study_id: str, fits: Callable[[Cached], bool]) -> tuple[Report, bool]:
        """Return what is cached, where that ``fits``; and whether it was measured now."""
        if study_id == EXAMPLE:
            return example(), False
        self.store.study(study_id)
        with self._locks.first(study_id, Lock()):
            cached = self._cached.get(study_id)
            if cached and fits(cached):
                return cached.report, False
            began = time.monotonic()
            report = measured(self.store, study_id)
            ended = time.monotonic()
            pause = max(PAUSE_S, PAUSES * (ended - began))
            self._cached.put(study_id, Cached(report, ended + pause))
            return report, True


FILES = ("study-report.html", "study.zip", *(f"study-{name}" for name in TABLES))
EXAMPLE_FILES = (
    "study-report.html",
    "study-measured.csv",
)  # of a study whose runs are not in the database


def _content(name: str, store: RunStore, report: Report) -> bytes:
    """Return one of FILES."""
    if name == "study-report.html":
        return html(document(report, worst_texts(store, report))).encode()
    if name != "study.zip":
        return csv_text(TABLES[name.removeprefix("study-")](store, report)).encode()
    stream = io.BytesIO()
    with (
        TemporaryDirectory(prefix="mars-study-") as folder,
        zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for path in write_report(store, report, Path(folder)):
            archive.write(path, path.name)
    return stream.getvalue()


def study_file(reports: StudyReports, name: str, services: Services, request: Request) -> Response:
    """Raises StorageError, and ValueError for what another version saved."""
    study = request.query_params.get("study", "")
    store = store_for(services, request)
    if not ID.fullmatch(study):
        return PlainTextResponse("study must be an id of 32 hexadecimal digits.\n", 400)
    return attachment(name, _content(name, store, reports.of(store).measured_again(study)))
