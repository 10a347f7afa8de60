"""Downloads of a study: ``/downloads/study-report.html?study=<id>``, its CSV files, and all of them with Markdown and charts in one ZIP."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from evaluation.report.document.build import document
from evaluation.report.document.render import html
from evaluation.report.table_csv import write_measured_csv, write_prompts_csv, write_results_csv
from evaluation.report.texts import worst_texts
from evaluation.report.values import Report
from evaluation.report.write import write_report
from storage import RunStore, StorageError
from ui.kit.address import ID
from ui.kit.told import told
from ui.public.sharing import store_for
from ui.services import Services
from ui.tabs.quality.reports import Measure, Reports

Writer = Callable[[RunStore, Report], bytes]
CSV, HTML, ZIP = "text/csv; charset=utf-8", "text/html; charset=utf-8", "application/zip"


def _page(store: RunStore, report: Report) -> bytes:
    return html(document(report, worst_texts(store, report))).encode()


def _results(store: RunStore, report: Report) -> bytes:
    stream = io.StringIO(newline="")
    write_results_csv(store, report.id, stream)
    return stream.getvalue().encode()


def _measured(_: RunStore, report: Report) -> bytes:
    stream = io.StringIO(newline="")
    write_measured_csv(report, stream)
    return stream.getvalue().encode()


def _prompts(_: RunStore, report: Report) -> bytes:
    stream = io.StringIO(newline="")
    write_prompts_csv(report, stream)
    return stream.getvalue().encode()


def _whole(store: RunStore, report: Report) -> bytes:
    """Every file of ``write_report``."""
    stream = io.BytesIO()
    with (
        TemporaryDirectory(prefix="mars-study-") as folder,
        zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for path in write_report(store, report, Path(folder)):
            archive.write(path, path.name)
    return stream.getvalue()


WRITERS: dict[str, tuple[Writer, str]] = {
    "study-report.html": (_page, HTML),
    "study-results.csv": (_results, CSV),
    "study-measured.csv": (_measured, CSV),
    "study-prompts.csv": (_prompts, CSV),
    "study.zip": (_whole, ZIP),
}


def study_routes(services: Services, measure: Measure | None = None) -> list[Route]:
    """To be mounted before the routes of the other downloads, which take every name."""
    reports = Reports(services.store, measure)
    return [Route(f"/downloads/{name}", _sender(services, reports, name), methods=["GET"]) for name in WRITERS]


def _sender(services: Services, reports: Reports, name: str) -> Callable[[Request], Response]:
    def send(request: Request) -> Response:
        try:
            mine = reports.of(store_for(services, request))
            return study_file(mine, name, request.query_params.get("study", ""))
        except (ValueError, StorageError) as error:
            return PlainTextResponse(f"{told(error, public=services.public)}\n".encode("utf-8", "replace"), 404)

    return send


def study_file(reports: Reports, name: str, study_id: str) -> Response:
    """One of the files. Raises StorageError, and ValueError for a study of another version."""
    if not ID.fullmatch(study_id):
        return PlainTextResponse("study must be an id of 32 hexadecimal digits.\n", 400)
    write, media_type = WRITERS[name]
    content = write(reports.store, reports.fresh(study_id))
    return Response(content, media_type=media_type, headers={"Content-Disposition": f'attachment; filename="{name}"'})
