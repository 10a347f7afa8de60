"""Downloads of a study: ``/downloads/study-report.html?study=<id>``, its CSV files, and all of them with Markdown and charts in one ZIP.

Of a sweep: ``/downloads/sweep.csv?sweep=<id>``, one row a setting, and ``sweep-comparisons.csv``, one row a comparison.
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
from starlette.routing import Route

from evaluation.report.document.build import document
from evaluation.report.document.render import html
from evaluation.report.files import TABLES, csv_text, write_report
from evaluation.report.texts import worst_texts
from evaluation.report.values import Report
from evaluation.study.pairs import Sweep, load_sweep
from evaluation.study.sweep_csv import pairs_table, points_table
from storage import RunStore, StorageError
from ui.kit.address import ID
from ui.kit.errors import error_message
from ui.public.sharing import store_for
from ui.services import Services
from ui.tabs.study.reports import Measure, Reports

Send = Callable[[RunStore, str], Response]
MEDIA = {"csv": "text/csv; charset=utf-8", "html": "text/html; charset=utf-8", "zip": "application/zip"}
FILES = ("study-report.html", "study.zip", *(f"study-{name}" for name in TABLES))
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


def study_routes(services: Services, measure: Measure | None = None) -> list[Route]:
    """To be mounted before the routes of the other downloads, which take every name."""
    reports = Reports(services.store, measure)

    def study_file(name: str) -> Send:
        return lambda store, study: _file(name, _content(name, store, reports.of(store).fresh(study)))

    def sweep_file(name: str) -> Send:
        return lambda store, sweep: _file(name, csv_text(SWEEP_TABLES[name](load_sweep(store, sweep))).encode())

    return [
        *(_route(services, name, "study", study_file(name)) for name in FILES),
        *(_route(services, name, "sweep", sweep_file(name)) for name in SWEEP_TABLES),
    ]


def _route(services: Services, name: str, parameter: str, file: Send) -> Route:
    """``file`` raises StorageError, and ValueError for what another version saved."""

    def send(request: Request) -> Response:
        wanted = request.query_params.get(parameter, "")
        try:
            store = store_for(services, request)
            if ID.fullmatch(wanted):
                return file(store, wanted)
        except (ValueError, StorageError) as error:
            return PlainTextResponse(
                f"{error_message(error, public=services.public)}\n".encode("utf-8", "replace"), 404
            )
        return PlainTextResponse(f"{parameter} must be an id of 32 hexadecimal digits.\n", 400)

    return Route(f"/downloads/{name}", send, methods=["GET"])


def _file(name: str, content: bytes) -> Response:
    disposition = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, media_type=MEDIA[name.rpartition(".")[2]], headers=disposition)
