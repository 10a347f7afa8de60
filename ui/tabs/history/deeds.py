"""What a deed in History makes of the view: opening, paging, choosing runs. Values in, values out; the store is only read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from storage import RunRecord, RunStore, StorageError
from ui.kit.address import ID, Address, without_search
from ui.kit.format import displayable, plural
from ui.tabs.history.runs import MOST_RUNS, TOO_MANY, RunTable, moved_left, run_table, with_run

Changed = tuple[Address, str]  # the view, and one sentence on what was not done


def act(store: RunStore, view: Address, data: Mapping[str, Any]) -> Changed:
    """The view after a deed ``{deed, id | run | page}`` that a component reported, whatever it holds."""
    run, deed = _id(data.get("run")), data.get("deed")
    match deed:
        case "open":
            named = _id(data.get("id"))
            return (replace(view, comparison=named, share="") if named else view), ""
        case "page":
            page = data.get("page")
            return replace(view, page=page if isinstance(page, int) else 1), ""
        case "clear":
            return without_search(view), ""
        case "choose":
            return _with_run(store, view, run)
        case "drop":
            return replace(view, runs=tuple(other for other in view.runs if other != run)), ""
        case "left":
            return replace(view, runs=moved_left(view.runs, run)), ""
        case "none":
            return replace(view, runs=()), ""
        case _:
            return view, ""


def _with_run(store: RunStore, view: Address, run: str) -> Changed:
    if not run or run in view.runs:
        return view, ""
    if len(view.runs) >= MOST_RUNS:
        return view, TOO_MANY
    try:
        added, *others = store.records((run, *view.runs))
    except StorageError as error:
        return view, displayable(str(error))
    return replace(view, runs=with_run(others, added)), ""


def chosen_runs(store: RunStore, runs: Sequence[str]) -> tuple[tuple[RunRecord, ...], str]:
    """Those of the runs that are there, ten at most, and one sentence where some are missing."""
    found = _there(store, runs)
    if len(found) > MOST_RUNS:
        return found[
            :MOST_RUNS
        ], f"{len(found)} runs were asked for; the table holds {MOST_RUNS}, the first ones are shown."
    missing = len(runs) - len(found)
    verb = "is" if missing == 1 else "are"
    return found, f"{plural(missing, 'run')} of this table {verb} no longer there." if missing else ""


def _there(store: RunStore, runs: Sequence[str]) -> tuple[RunRecord, ...]:
    if not runs:
        return ()
    try:
        return store.records(runs)
    except StorageError:
        if len(runs) == 1:
            return ()
        return tuple(record for run in runs for record in _there(store, (run,)))


def table_of(records: Sequence[RunRecord]) -> RunTable:
    return run_table(records)


def _id(word: object) -> str:
    return word if isinstance(word, str) and ID.fullmatch(word) else ""
