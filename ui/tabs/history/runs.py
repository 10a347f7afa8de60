"""The table of compared runs: up to ten runs of any comparisons side by side, the leftmost is the
baseline.

Every row knows whether all runs agree in it, so that the page can show the differences only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from display.blocks import TableCell
from display.format import MISSING, plural, shorten
from mars_core.types import Summary
from storage import RunRecord, RunStore, StorageError
from ui.kit.address import ID, Address, read_address, without_search
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


class RunTable(NamedTuple):
    """As many cells a row as there are columns, which are as runs.html.jinja takes them; the
    leftmost is the baseline."""

    columns: tuple[dict[str, str], ...] = ()
    rows: tuple[QuantityRow, ...] = ()


def run_table(records: Sequence[RunRecord]) -> RunTable:
    if not records:
        return RunTable()
    columns = tuple(_column(record) for record in records)
    rows = [
        _words(
            "machine" if name in _MACHINE else "setting",
            name,
            help_,
            [read(record.config) for record in records],
        )
        for name, help_, read in SETTINGS
    ]
    rows += [
        _words("setting", "Ended", "how the run ended", [_ending(record) for record in records])
    ]
    rows += [_measure(quantity, [record.summary for record in records]) for quantity in MEASURES]
    rows += [_words("text", "Text", "what the run wrote", [record.text for record in records])]
    return RunTable(
        columns,
        tuple(row for row in rows if any(cell.text not in ("", MISSING) for cell in row.cells)),
    )


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


def _words(kind: str, name: str, help_: str, values: Sequence[str]) -> QuantityRow:
    return QuantityRow(
        kind,
        name,
        help_,
        len(set(values)) == 1,
        tuple(map(TableCell, values)),
    )


def _measure(quantity: RunQuantity, summaries: Sequence[Summary]) -> QuantityRow:
    base, *others = values = [quantity.read(summary) for summary in summaries]
    cells = [TableCell(quantity.write(base))]
    for value in others:
        cells.append(TableCell(quantity.write(value), signed(quantity.write, value - base)))
    same = all(value == base or (math.isnan(value) and math.isnan(base)) for value in values)
    return QuantityRow("measure", quantity.name, quantity.help, same, tuple(cells))


def with_run(records: Sequence[RunRecord], added: RunRecord) -> tuple[str, ...]:
    """Return the ids with one more: beside the runs of its comparison, in the order of their lanes;
    without any it comes last."""
    ids = [record.id for record in records]
    same = [
        index for index, record in enumerate(records) if record.comparison_id == added.comparison_id
    ]
    after = same[-1] + 1 if same else len(ids)
    index = next((index for index in same if records[index].lane > added.lane), after)
    return (*ids[:index], added.id, *ids[index:])


def acted(store: RunStore, view: Address, data: Mapping[str, Any]) -> tuple[Address, str]:
    """Return the view after an action ``{action, id | run | page}`` that a component reported,
    whatever it holds; and one sentence on what was not done."""
    run, action = _id(data.get("run")), data.get("action")
    match action:
        case "open":
            opened = _id(data.get("id"))
            return (replace(view, comparison=opened, share="") if opened else view), ""
        case "page":
            page = data.get("page")
            return replace(view, list_page=page if isinstance(page, int) else 1), ""
        case "clear":
            return without_search(view), ""
        case "model":
            return replace(view, target=read_address(data).target, sort="", list_page=1), ""
        case "choose" if data.get("checked", True):
            runs, message = choose_run(store, view.runs, run)
            return replace(view, runs=runs), message
        case "choose" | "drop" | "left" | "none":
            others = tuple(other for other in view.runs if other != run)
            left = (run, *others) if run in view.runs else view.runs  # the new baseline
            return replace(view, runs={"left": left, "none": ()}.get(str(action), others)), ""
        case _:
            return view, ""


def _id(text: object) -> str:
    return text if isinstance(text, str) and ID.fullmatch(text) else ""


def choose_run(store: RunStore, runs: tuple[str, ...], run: str) -> tuple[tuple[str, ...], str]:
    """Return the ids with ``run`` among them, and one sentence where it cannot be added."""
    if not run or run in runs:
        return runs, ""
    if len(runs) >= MOST_RUNS:
        return runs, TOO_MANY
    try:
        added, *others = store.records((run, *runs))
    except StorageError as error:
        return runs, str(error)
    return with_run(others, added), ""


def chosen_runs(store: RunStore, runs: Sequence[str]) -> tuple[tuple[RunRecord, ...], str]:
    """Return those of the runs that are there, ten at most, and one sentence where some are
    missing."""
    try:
        existing = store.records(runs, existing=True) if runs else ()
    except StorageError as error:
        return (), str(error)
    if len(existing) > MOST_RUNS:
        message = f"The address names {len(existing)} runs; the first {MOST_RUNS} are displayed, the maximum of the table."
        return existing[:MOST_RUNS], message
    missing = len(runs) - len(existing)
    verb = "is" if missing == 1 else "are"
    return (
        existing,
        f"{plural(missing, 'run')} of this table {verb} no longer there." if missing else "",
    )


def runs_html(table: RunTable, message: str = "", share: str = "") -> str:
    """``message``: one sentence on what was not done; empty where all went well. ``share``: token
    of the link they are read through."""
    template, columns = "tabs/history/runs.html.jinja", len(table.columns)
    summary = (
        f"{plural(columns, 'run')} side by side; differences are against the leftmost."
        if columns
        else ""
    )
    if columns == 1:
        summary = "One run is chosen; choose another one to compare them."
    return render(
        template, table=table, groups=_GROUPS, summary=summary, message=message, share=share
    )
