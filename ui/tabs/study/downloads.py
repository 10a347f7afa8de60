"""Downloads of a study: ``/downloads/study-report.html?study=<id>``, its CSV files, and all of them
with Markdown and charts in one ZIP."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from display.render import html
from evaluation.report.document.build import document
from evaluation.report.files import TABLES, write_report
from evaluation.report.texts import worst_texts
from evaluation.report.values import Report
from storage import RunStore
from storage.export import csv_text
from ui.jobs.services import Services
from ui.kit.address import ID
from ui.kit.responses import attachment
from ui.sharing import store_for
from ui.tabs.study.reports import StudyReports

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
