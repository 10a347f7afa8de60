"""The table of compared runs: up to ten runs of any comparisons side by side, the leftmost is the
baseline.

Every row knows whether all runs agree in it, so that the page can show the differences only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from display.blocks import TableCell
from display.format import MISSING, plural, shorten
from mars_core.types import Summary
from storage import RunRecord, RunStore, StorageError
from ui.kit.address import Address, read_address, without_search
from ui.kit.labels import STOP_TITLES, lane_label
from ui.kit.panel import render
from ui.result.numbers import (
    LOOP_QUANTITIES,
    QUANTITIES,
    SETTINGS,
    SHIFT_QUANTITIES,
    RunQuantity,
    quantities,
    signed,
)

MOST_RUNS = 10
TOO_MANY = (
    f"The table already has {MOST_RUNS} runs, its maximum; remove one before you add another."
)
_MORE = quantities(
    prefill_s="Prefill",
    draft_s="Drafting",
    verify_s="Verifying",
    drafted="Drafted",
    relaxed="Relaxed",
    recovered="Recovered",
    bonus="Bonus",
    peak_memory_bytes="Peak memory of the process",
)
_GROUPS = {  # kinds of rows, as they follow each other
    "text": "Output",
    "measure": "Measures",
    "setting": "Settings",
    "machine": "Machine and versions",
}
_MACHINE = ("Device", "Number format", "Versions")
MEASURES = (*QUANTITIES, *LOOP_QUANTITIES, *_MORE, *SHIFT_QUANTITIES)


class QuantityRow(NamedTuple):
    """``kind``: a key of ``_GROUPS``; ``same``: all runs agree; small in a cell: the signed
    difference from the leftmost."""

    kind: str
    name: str
    help: str
    same: bool
    cells: tuple[TableCell, ...]


def run_rows(records: Sequence[RunRecord]) -> list[QuantityRow]:
    """Return the rows in which any of the runs has something."""
    rows = [
        _words(
            "machine" if name in _MACHINE else "setting",
            name,
            help_,
            [read(record.config) for record in records],
        )
        for name, help_, read in SETTINGS
    ]
    rows.append(_words("setting", "Ended", "how the run ended", map(_ending, records)))
    rows += [_measure(quantity, [record.summary for record in records]) for quantity in MEASURES]
    rows.append(_words("text", "Text", "what the run wrote", [record.text for record in records]))
    return [row for row in rows if any(cell.text not in ("", MISSING) for cell in row.cells)]


def _column(record: RunRecord) -> dict[str, str]:
    """``created``: ISO 8601 in UTC; ``comparison``: the one it belongs to."""
    name = record.name or shorten(record.config.prompt.text, 60)
    ids = {
        "id": record.id,
        "comparison": record.comparison_id,
        "created": record.created_at.isoformat(),
    }
    return ids | {"title": lane_label(record.config), "name": name}


def _ending(record: RunRecord) -> str:
    error = f": {record.error}" if record.error else ""
    return f"{record.status.value}, {STOP_TITLES[record.stop_reason]}{error}"


def _words(kind: str, name: str, help_: str, values: Iterable[str]) -> QuantityRow:
    cells = tuple(map(TableCell, values))
    return QuantityRow(kind, name, help_, len(set(cells)) == 1, cells)


def _measure(quantity: RunQuantity, summaries: Sequence[Summary]) -> QuantityRow:
    base, *others = values = [quantity.read(summary) for summary in summaries]
    cells = [TableCell(quantity.write(base))]
    for value in others:
        cells.append(TableCell(quantity.write(value), signed(quantity.write, value - base)))
    same = all(value == base or (math.isnan(value) and math.isnan(base)) for value in values)
    return QuantityRow("measure", quantity.name, quantity.help, same, tuple(cells))


def acted(view: Address, data: Mapping[str, Any]) -> tuple[Address, str]:
    """Return the view after an action, whose other values name what it is of, as those of an
    address, whatever a component reported; and one sentence on what was not done."""
    named, action = read_address(data), data.get("action")
    others = tuple(run for run in view.runs if run not in named.runs)
    match action:
        case "open" if named.comparison:
            return replace(view, comparison=named.comparison, share=""), ""
        case "page":
            return replace(view, list_page=named.list_page), ""
        case "clear":
            return without_search(view), ""
        case "model":
            return replace(view, target=named.target, sort="", list_page=1), ""
        case "choose" if data.get("checked", True):
            runs = tuple(dict.fromkeys((*view.runs, *named.runs[:1])))
            return (view, TOO_MANY) if len(runs) > MOST_RUNS else (replace(view, runs=runs), "")
        case "choose" | "drop":
            return replace(view, runs=others), ""
        case "left" if len(others) < len(view.runs):  # the new baseline
            return replace(view, runs=(*named.runs, *others)), ""
        case "none":
            return replace(view, runs=()), ""
    return view, ""


def chosen_runs(store: RunStore, runs: Sequence[str]) -> tuple[tuple[RunRecord, ...], str]:
    """Return those of the runs that are there, ten at most, and one sentence where some are
    missing."""
    try:
        existing = store.records(runs, existing=True) if runs else ()
    except StorageError as error:
        return (), str(error)
    shown = existing[:MOST_RUNS]
    missing = plural(len(runs) - len(shown), "run")
    message = (
        f"Not in this table: {missing}, no longer there or beyond the {MOST_RUNS} that it takes."
    )
    return shown, message if len(shown) < len(runs) else ""


def runs_html(records: Sequence[RunRecord] = (), message: str = "", share: str = "") -> str:
    """Return the table of these runs, as many cells a row; the leftmost is the baseline.
    ``message``: one sentence on what was not done; empty where all went well. ``share``: token of
    the link they are read through."""
    summary = f"{plural(len(records), 'run')} side by side; differences are against the leftmost."
    if len(records) == 1:
        summary = "One run is chosen; choose another one to compare them."
    return render(
        "tabs/history/runs.html.jinja",
        columns=[_column(record) for record in records],
        rows=run_rows(records) if records else [],
        groups=_GROUPS,
        summary=summary if records else "",
        message=message,
        share=share,
    )
