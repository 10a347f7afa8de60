"""The list of History: one page of saved comparisons as plain values, and the component that draws it."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any

import gradio as gr
import pandas as pd

from storage import RunStore
from ui.kit.address import Address
from ui.kit.assets import asset, to_json
from ui.kit.format import count, displayable, number, over, plural, ratio, shorten
from ui.tabs.history.names import rule_words
from ui.tabs.history.runs import MOST_RUNS
from ui.tabs.history.search import to_search

PAGE = 20  # comparisons on one page of the list
NOTHING = "No comparison is saved yet. Press Compare on the first tab; what it writes is kept here."
NOT_FOUND = "No saved comparison fits the search."


@dataclass(frozen=True, slots=True)
class HistoryLane:
    """One run of a comparison. ``chosen``: it stands in the table of compared runs."""

    id: str
    label: str
    numbers: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """One saved comparison in the list. ``created`` is ISO 8601 in UTC; the browser writes it in its own time."""

    id: str
    created: str
    name: str
    prompt: str
    tags: tuple[str, ...]
    source: str
    lanes: tuple[HistoryLane, ...]
    ratio: str
    status: str
    selected: bool


@dataclass(frozen=True, slots=True)
class Notice:
    """A line above the list, until the next action. ``undo``: the comparison that a button brings back."""

    text: str = ""
    undo: str = ""


SILENT = Notice()


@dataclass(frozen=True, slots=True)
class Listing:
    """One page of the list. ``page`` from 1; ``message`` says why there is no row, ``searching`` that a search may be why;
    ``selected``: the comparison that is open, on this page or not."""

    rows: tuple[HistoryRow, ...] = ()
    page: int = 1
    pages: int = 1
    total: int = 0
    message: str = ""
    searching: bool = False
    selected: str = ""

    @property
    def words(self) -> str:
        if not self.total:
            return ""
        amount = plural(self.total, "comparison")
        return f"Page {self.page} of {count(self.pages)}, {amount}{' found' if self.searching else ''}"

    def json(self, notice: Notice = SILENT) -> str:
        content = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "rows"}
        rows = [asdict(row) for row in self.rows]
        return to_json(content | {"rows": rows, "words": self.words, "notice": asdict(notice), "most": MOST_RUNS})


def listing(store: RunStore, address: Address = Address()) -> Listing:  # noqa: B008  (a frozen value)
    """The page nearest to the one asked for. Raises StorageError."""
    page = max(1, address.page)
    found = store.find(to_search(address, limit=PAGE, offset=(page - 1) * PAGE))
    pages = max(1, math.ceil(found.total / PAGE))
    if page > pages:
        page = pages
        found = store.find(to_search(address, limit=PAGE, offset=(page - 1) * PAGE))
    rows = tuple(_row(record, address.comparison, address.runs) for _, record in found.frame.iterrows())
    searching = address.searching
    message = "" if rows else NOT_FOUND if searching else NOTHING
    return Listing(rows, page, pages, found.total, message, searching, address.comparison)


def failed_listing(message: str) -> Listing:
    """The list where the store could not be read."""
    return Listing(message=displayable(message))


def _row(record: pd.Series[Any], selected: str, chosen: Collection[str]) -> HistoryRow:
    speeds, taus, tokens = record["tokens_per_s"], record["tau"], record["new_tokens"]
    lanes = tuple(
        HistoryLane(run, displayable(rule_words(rule)), f"{number(speed)} tok/s, τ {number(tau)}, {count(amount)} tokens", run in chosen)
        for run, rule, speed, tau, amount in zip(record["run_ids"], record["rules"], speeds, taus, tokens, strict=True)
    )  # fmt: skip
    states = [str(status) for status in record["status"]]
    status = next((state for state in states if state != "completed"), "completed" if states else "cancelled")
    factor = ratio(over(speeds[1], speeds[0])) if len(speeds) == 2 and status == "completed" else ""
    return HistoryRow(
        id=record["id"],
        created=record["created_at"].isoformat(),
        name=displayable(record["name"]),
        prompt=shorten(record["prompt"]),
        tags=tuple(map(displayable, record["tags"])),
        source="" if record["source"] == "compare" else str(record["source"]),
        lanes=lanes,
        ratio=factor,
        status=status,
        selected=record["id"] == selected,
    )


def list_component() -> gr.HTML:
    return gr.HTML(
        value=Listing(message=NOTHING).json(),
        html_template=asset("history.html"),
        js_on_load=asset("history.js"),
        apply_default_css=False,
        elem_id="history-list",
    )
