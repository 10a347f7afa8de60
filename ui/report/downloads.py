"""Downloads of saved runs: plain links to routes that write a file in constant memory, send it and remove it."""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route

import storage
from storage import RunStore, StorageError
from ui.kit.address import ID, Address, read_address, to_search
from ui.kit.components import REPORT
from ui.kit.errors import error_message
from ui.public.sharing import store_for
from ui.report.page import report_html
from ui.services import Services

Writer = Callable[[RunStore, Path, Sequence[str] | None], None]
TYPES = {
    ".csv": "text/csv; charset=utf-8",
    ".parquet": "application/vnd.apache.parquet",
    ".html": "text/html; charset=utf-8",
}
MOST_FOUND = 100_000  # comparisons in the download of a search


def _csv(write: Callable[..., None]) -> Writer:
    def to_file(store: RunStore, path: Path, ids: Sequence[str] | None) -> None:
        with path.open("w", encoding="utf-8", newline="") as stream:
            write(store, stream, ids)

    return to_file


def _report(store: RunStore, path: Path, ids: Sequence[str] | None) -> None:
    path.write_text("".join(report_html(store.load(one)) for one in ids or ()), encoding="utf-8")


ALL_FILES: Mapping[str, Writer] = {
    "runs.csv": _csv(storage.write_runs_csv),
    "tokens.csv": _csv(storage.write_tokens_csv),
    "nodes.csv": _csv(storage.write_nodes_csv),
    "runs.parquet": storage.write_runs_parquet,
    "tokens.parquet": storage.write_tokens_parquet,
    "nodes.parquet": storage.write_nodes_parquet,
    "votes.csv": _csv(lambda store, stream, _: storage.write_votes_csv(store, stream)),
    "votes.parquet": lambda store, path, _: storage.write_votes_parquet(store, path),
    REPORT: _report,
}


def download_routes(services: Services) -> list[Route]:
    """``/downloads/<file>``: all comparisons of whoever asks; ``?comparison=<id>`` one; ``?text=…&rule=…`` those that the search finds;
    ``runs.csv?runs=<id>,<id>`` these runs, in this order."""

    def send(request: Request) -> Response:
        try:
            return _file(store_for(services, request), request.path_params["name"], dict(request.query_params))
        except StorageError as error:
            return PlainTextResponse(
                f"{error_message(error, public=services.public)}\n".encode("utf-8", "replace"), 404
            )

    return [Route("/downloads/{name}", send, methods=["GET"])]


def _file(store: RunStore, name: str, asked: Mapping[str, str]) -> Response:
    """Raises StorageError."""
    if name not in ALL_FILES:
        return PlainTextResponse(f"There is no download {name[:80]!a}; there are {', '.join(ALL_FILES)}.\n", 404)
    comparison = asked.get("comparison")
    if comparison is not None and not ID.fullmatch(comparison):
        return PlainTextResponse("comparison must be an id of 32 hexadecimal digits.\n", 400)
    if name == REPORT and comparison is None:
        return PlainTextResponse("A report is of one comparison: name it with ?comparison=<id>.\n", 400)
    view = read_address(asked)
    with tempfile.NamedTemporaryFile(prefix="mars-", suffix=f"-{name}", delete=False) as file:
        path = Path(file.name)
    try:
        ALL_FILES[name](store, path, [comparison] if comparison else _wanted(store, view))
        if name == "runs.csv" and view.runs:
            _only_runs(path, view.runs)
    except BaseException:
        path.unlink()
        raise
    file_name = f"mars-{comparison[:8]}.html" if name == REPORT and comparison else name
    gone = BackgroundTask(path.unlink)
    return FileResponse(path, media_type=TYPES[path.suffix], filename=file_name, background=gone)


def _wanted(store: RunStore, view: Address) -> list[str] | None:
    """The comparisons of the runs or of the search that the address names; None for all."""
    if view.runs:
        return list(dict.fromkeys(record.comparison_id for record in store.records(view.runs)))
    if not view.searching:
        return None
    return list(store.find(replace(to_search(view, limit=MOST_FOUND, offset=0))).frame["id"])


def _only_runs(path: Path, runs: Sequence[str]) -> None:
    """Leaves the rows of these runs, in their order; few, so they are held in memory."""
    with path.open(encoding="utf-8", newline="") as stream:
        head, *rows = csv.reader(stream)
    by_id = {row[head.index("run_id")]: row for row in rows}
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([head, *(by_id[run] for run in runs if run in by_id)])
