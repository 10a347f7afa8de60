"""The list of History: one page of saved comparisons, and the component that shows it."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import gradio as gr
import pandas as pd

from evaluation.format import count, number, plural, ratio, shorten
from evaluation.statistics import over
from storage import RunStore
from ui.kit.address import Address, to_search
from ui.kit.labels import rule_label
from ui.kit.panel import panel_component, render

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


@dataclass(frozen=True, slots=True)
class Notice:
    """A line above the list, until the next action. ``undo``: the comparison that a button brings back; ``refusal``: new at every
    action that was refused, so that the boxes of the list show again what holds."""

    text: str = ""
    undo: str = ""
    refusal: str = ""


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
    def position(self) -> str:
        if not self.total:
            return ""
        amount = plural(self.total, "comparison")
        return f"Page {self.page} of {count(self.pages)}, {amount}{' found' if self.searching else ''}"

    def html(self, notice: Notice = SILENT) -> str:
        return render("tabs/history/list.html.jinja", listing=self, notice=notice)


def listing(store: RunStore, address: Address = Address()) -> Listing:  # noqa: B008  (a frozen value)
    """The page nearest to the one asked for. Raises StorageError."""
    page = max(1, address.page)
    found = store.find(to_search(address, limit=PAGE, offset=(page - 1) * PAGE))
    pages = max(1, math.ceil(found.total / PAGE))
    if page > pages:
        page = pages
        found = store.find(to_search(address, limit=PAGE, offset=(page - 1) * PAGE))
    rows = tuple(_row(record, address.runs) for _, record in found.frame.iterrows())
    message = "" if rows else NOT_FOUND if address.searching else NOTHING
    return Listing(rows, page, pages, found.total, message, address.searching, address.comparison)


def _row(record: pd.Series[Any], chosen: Collection[str]) -> HistoryRow:
    speeds, taus, tokens = record["tokens_per_s"], record["tau"], record["new_tokens"]
    lanes = tuple(
        HistoryLane(run, rule_label(rule), f"{number(speed)} tok/s, τ {number(tau)}, {count(amount)} tokens", run in chosen)
        for run, rule, speed, tau, amount in zip(record["run_ids"], record["rules"], speeds, taus, tokens, strict=True)
    )  # fmt: skip
    states = [str(status) for status in record["status"]]
    status = next((state for state in states if state != "completed"), "completed" if states else "cancelled")
    return HistoryRow(
        id=record["id"],
        created=record["created_at"].isoformat(),
        name=record["name"],
        prompt=shorten(record["prompt"]),
        tags=tuple(record["tags"]),
        source="" if record["source"] == "compare" else str(record["source"]),
        lanes=lanes,
        ratio=ratio(over(speeds[1], speeds[0])) if len(speeds) == 2 and status == "completed" else "",
        status=status,
    )


def list_component() -> gr.HTML:
    return panel_component(Listing(message=NOTHING).html(), elem_id="history-list")
