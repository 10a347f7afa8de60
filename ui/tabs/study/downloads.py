"""Downloads of a study: ``/downloads/study-report.html?study=<id>``, its CSV files, and all of them
with Markdown and charts in one ZIP.

Of a sweep: ``/downloads/sweep.csv?sweep=<id>``, one row a setting, and ``sweep-comparisons.csv``,
one row a comparison.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from evaluation.report.document.build import document
from evaluation.report.document.render import html
from evaluation.report.files import TABLES, csv_text, write_report
from evaluation.report.texts import worst_texts
from evaluation.report.values import Report
from evaluation.study.pairs import Sweep, load_sweep
from evaluation.study.points import pairs_table, points_table
from storage import RunStore
from ui.jobs.services import Services
from ui.kit.address import ID
from ui.kit.responses import attachment
from ui.sharing import store_for
from ui.tabs.study.reports import Reports

FILES = ("study-report.html", "study.zip", *(f"study-{name}" for name in TABLES))
EXAMPLE_FILES = (
    "study-report.html",
    "study-measured.csv",
)  # of a study whose runs are not in the database
SWEEP_TABLES: dict[str, Callable[[Sweep], Iterable[Sequence[Any]]]] = {
    "sweep.csv": points_table,
    "sweep-comparisons.csv": pairs_table,
}


def _content(name: str, store: RunStore, report: Report) -> bytes:
    """One of FILES."""
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


def study_file(reports: Reports, name: str, services: Services, request: Request) -> Response:
    """Raises StorageError, and ValueError for what another version saved."""
    return _file(
        services,
        request,
        "study",
        lambda store, study: attachment(
            name, _content(name, store, reports.of(store).fresh(study))
        ),
    )


def sweep_file(name: str, services: Services, request: Request) -> Response:
    """Raises as ``study_file``."""
    return _file(
        services,
        request,
        "sweep",
        lambda store, sweep: attachment(
            name, csv_text(SWEEP_TABLES[name](load_sweep(store, sweep)))
        ),
    )


def _file(
    services: Services, request: Request, parameter: str, send: Callable[[RunStore, str], Response]
) -> Response:
    wanted = request.query_params.get(parameter, "")
    store = store_for(services, request)
    if not ID.fullmatch(wanted):
        return PlainTextResponse(f"{parameter} must be an id of 32 hexadecimal digits.\n", 400)
    return send(store, wanted)
