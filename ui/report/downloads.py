"""Downloads of saved runs, written in constant memory."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from storage import RunStore, StoredComparison, write_csv, write_parquet
from storage.export.tables import EXPORTS
from ui.jobs.services import Services
from ui.kit.address import ID, Address, read_address, to_search
from ui.kit.components import REPORT
from ui.kit.responses import written
from ui.report.page import report_html
from ui.report.picture import picture_json
from ui.sharing import store_for

DownloadWriter = Callable[[RunStore, Path, Sequence[str] | None], None]
MOST_MATCHES = 100_000  # comparisons in the download of a search


def _of_one(
    text: Callable[[StoredComparison], str], store: RunStore, path: Path, ids: Sequence[str] | None
) -> None:
    path.write_text("".join(text(store.load(one)) for one in ids or ()), encoding="utf-8")


OF_ONE: Mapping[str, DownloadWriter] = {
    REPORT: partial(_of_one, report_html),
    "picture.json": partial(_of_one, picture_json),
}
ALL_FILES: Mapping[str, DownloadWriter] = {
    **{f"{name}.csv": partial(write_csv, name) for name in EXPORTS},
    **{f"{name}.parquet": partial(write_parquet, name) for name in EXPORTS},
    **OF_ONE,
}


def run_file(services: Services, request: Request) -> Response:
    """Answer ``/downloads/<file>``: all comparisons of a visitor; ``?comparison=<id>`` one;
    ``?text=…&rule=…`` those that the search finds; ``runs.csv?runs=<id>,<id>`` these runs, in this
    order. Raises StorageError."""
    store, name, wanted = (
        store_for(services, request),
        request.path_params["name"],
        dict(request.query_params),
    )
    if name not in ALL_FILES:
        return PlainTextResponse(
            f"There is no download {name[:80]!a}; there are {', '.join(ALL_FILES)}.\n", 404
        )
    comparison = wanted.get("comparison")
    if comparison is not None and not ID.fullmatch(comparison):
        return PlainTextResponse("comparison must be an id of 32 hexadecimal digits.\n", 400)
    if name in OF_ONE and comparison is None:
        return PlainTextResponse(
            f"{name} is of one comparison: name it with ?comparison=<id>.\n", 400
        )
    view = read_address(wanted)

    def write(path: Path) -> None:
        ALL_FILES[name](store, path, [comparison] if comparison else _wanted(store, view))
        if name == "runs.csv" and view.runs:
            _only_runs(path, view.runs)

    return written(f"mars-{comparison[:8]}.html" if name == REPORT and comparison else name, write)


def _wanted(store: RunStore, view: Address) -> list[str] | None:
    """Return the comparisons of the runs or of the search that the address names; None for all."""
    if view.runs:
        return list(dict.fromkeys(record.comparison_id for record in store.records(view.runs)))
    if not view.searching:
        return None
    return store.matching_ids(to_search(view, limit=MOST_MATCHES, offset=0))


def _only_runs(path: Path, runs: Sequence[str]) -> None:
    """Leaves the rows of these runs, in their order; few, so they are held in memory."""
    with path.open(encoding="utf-8", newline="") as stream:
        head, *rows = csv.reader(stream)
    by_id = {row[head.index("run_id")]: row for row in rows}
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([head, *(by_id[run] for run in runs if run in by_id)])
