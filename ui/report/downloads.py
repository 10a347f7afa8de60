"""Downloads of saved runs, written in constant memory, and a comparison as the values from which
assets/panel/picture.js draws one picture."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from display.format import count, displayable, number, plural
from display.sources import to_json
from mars_core.types import UNKNOWN, Outcome, Trace
from storage import RunStore, StoredComparison, write_csv, write_parquet
from storage.export.tables import EXPORTS
from ui.jobs.services import Services
from ui.kit.address import ID, Address, read_address, to_search
from ui.kit.components import REPORT
from ui.kit.labels import lane_labels, settings_line
from ui.kit.responses import written
from ui.kit.values import plain
from ui.report.page import report_html
from ui.result.result import ended_result
from ui.settings.values import MOST_LANES, few, richest
from ui.sharing import store_for

DownloadWriter = Callable[[RunStore, Path, Sequence[str] | None], None]
BY_ID = "comparison must be an id of 32 hexadecimal digits."
MOST_MATCHES = 100_000  # comparisons in the download of a search


def _of_one(
    text: Callable[[StoredComparison], str], store: RunStore, path: Path, ids: Sequence[str] | None
) -> None:
    path.write_text("".join(text(store.load(one)) for one in ids or ()), encoding="utf-8")


def picture_json(comparison: StoredComparison) -> str:
    """ASCII JSON without ``<``; all texts are displayable. ``pieces``: of the text, each with
    its kind: relaxed, or nothing."""
    stored = few(comparison, ())
    traces, config = [run.trace for run in stored.runs], richest(stored)
    titles = lane_labels([trace.config for trace in traces])
    return to_json(
        {
            "id": stored.id,
            "prompt": displayable(stored.prompt.text),
            "models": settings_line(config) if config else "",
            "sentence": plain(ended_result(stored).strip.parts),
            "lanes": [
                {"title": title, "numbers": _numbers(trace), "pieces": _pieces(trace)}
                for title, trace in zip(titles, traces[:MOST_LANES], strict=True)
            ],
        }
    )


def _pieces(trace: Trace) -> list[tuple[str, str]]:
    """Return the text; of a run without tokens, as some servers report it, in one piece."""
    given = trace.text[: trace.tokens[0].start] if trace.tokens else trace.text
    tokens = [
        (
            trace.text[token.start : token.end],
            Outcome.RELAXED.value * (token.outcome is Outcome.RELAXED),
        )
        for token in trace.tokens
    ]
    return [(displayable(text), kind) for text, kind in [(given, ""), *tokens] if text]


def _numbers(trace: Trace) -> str:
    """Return those that repeat exactly; what is not known is left out."""
    summary = trace.summary
    counts = (
        (summary.steps, plural(summary.steps, "target pass")),
        (summary.relaxed, f"{count(summary.relaxed)} relaxed"),
    )
    return " · ".join(
        [
            plural(summary.new_tokens, "token"),
            *(text for value, text in counts if value != UNKNOWN),
            *([] if math.isnan(summary.tau) else [f"{number(summary.tau)} tokens per pass"]),
        ]
    )


OF_ONE: Mapping[str, DownloadWriter] = {
    REPORT: partial(_of_one, report_html),
    "picture.json": partial(_of_one, picture_json),
}
ALL_FILES: Mapping[str, DownloadWriter] = {
    **{f"{name}.csv": partial(write_csv, name) for name in EXPORTS},
    **{f"{name}.parquet": partial(write_parquet, name) for name in EXPORTS},
    **OF_ONE,
}


def frame_page(services: Services, request: Request) -> Response:
    """Answer ``/?comparison=<id>&embed`` with prompt and result alone, which any page may show in a
    frame: nothing there can be pressed that changes anything. Raises StorageError."""
    named = {name: request.query_params.get(name, "") for name in ("comparison", "share")}
    if not ID.fullmatch(named["comparison"]):
        return PlainTextResponse(f"With embed, {BY_ID}\n", 400)
    stored = store_for(services, request).load(named["comparison"])
    opens = f"?{urlencode({name: text for name, text in named.items() if text})}"
    page = report_html(few(stored, ()), opens=opens)
    # instead of the page's policy, which names who may show it; * would leave out local files
    return HTMLResponse(page, headers={"Content-Security-Policy": "base-uri 'none'"})


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
        return PlainTextResponse(f"{BY_ID}\n", 400)
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
