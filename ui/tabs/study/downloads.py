"""Downloads of a study: ``/downloads/study-report.html?study=<id>``, its CSV files, and all of them with Markdown and charts in one ZIP.

Of a sweep: ``/downloads/sweep.csv?sweep=<id>``, one row a setting, and ``sweep-comparisons.csv``, one row a comparison.
"""

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
from evaluation.study.pairs import load_sweep
from evaluation.study.sweep_csv import write_pairs_csv, write_points_csv
from storage import RunStore, StorageError
from ui.kit.address import ID
from ui.kit.errors import error_message
from ui.public.sharing import store_for
from ui.services import Services
from ui.tabs.study.reports import Measure, Reports

Writer = Callable[[RunStore, Report], bytes]
Send = Callable[[RunStore, str], Response]
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


SWEEP_WRITERS: dict[str, Callable[..., None]] = {
    "sweep.csv": write_points_csv, "sweep-comparisons.csv": write_pairs_csv
}  # fmt: skip


def study_routes(services: Services, measure: Measure | None = None) -> list[Route]:
    """To be mounted before the routes of the other downloads, which take every name."""
    reports = Reports(services.store, measure)

    def study_file(name: str) -> Send:
        write, media_type = WRITERS[name]
        return lambda store, study_id: _file(name, write(store, reports.of(store).fresh(study_id)), media_type)

    def sweep_file(name: str) -> Send:
        return lambda store, sweep_id: _file(name, _sweep_csv(store, name, sweep_id), CSV)

    return [
        *(_route(services, name, "study", study_file(name)) for name in WRITERS),
        *(_route(services, name, "sweep", sweep_file(name)) for name in SWEEP_WRITERS),
    ]


def _route(services: Services, name: str, parameter: str, file: Send) -> Route:
    """``file`` raises StorageError, and ValueError for what another version saved."""

    def send(request: Request) -> Response:
        asked = request.query_params.get(parameter, "")
        try:
            store = store_for(services, request)
            if ID.fullmatch(asked):
                return file(store, asked)
        except (ValueError, StorageError) as error:
            return PlainTextResponse(
                f"{error_message(error, public=services.public)}\n".encode("utf-8", "replace"), 404
            )
        return PlainTextResponse(f"{parameter} must be an id of 32 hexadecimal digits.\n", 400)

    return Route(f"/downloads/{name}", send, methods=["GET"])


def _sweep_csv(store: RunStore, name: str, sweep_id: str) -> bytes:
    stream = io.StringIO(newline="")
    SWEEP_WRITERS[name](stream, load_sweep(store, sweep_id))
    return stream.getvalue().encode()


def _file(name: str, content: bytes, media_type: str) -> Response:
    return Response(content, media_type=media_type, headers={"Content-Disposition": f'attachment; filename="{name}"'})
