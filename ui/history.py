"""The History tab: saved comparisons, latest first; reopening one shows the result exactly as it was shown live; downloads."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gradio as gr
import pandas as pd

from storage import RunStore, StorageError, StoredComparison
from ui.components import HistoryLane, HistoryRow, history_component, history_json, text_component, words
from ui.downloads import downloads_component, downloads_json
from ui.form import MOST_LANES
from ui.format import count, displayable, number, over, plural, ratio, shorten
from ui.labels import lane_label, parameter_title, rule_title, settings_line
from ui.lanes import LEAST_LANES
from ui.result import Result, ended_result
from ui.result_view import ResultView, Updates, build_result
from ui.token_view import LaneView
from ui.workplace import Workplace

PAGE = 12  # comparisons on one page of the list
NOTHING = "No comparison is saved yet. Press Compare on the first tab; what it writes is kept here."
OTHER = "The other run"
PRIVATE: Mapping[str, Any] = {"api_visibility": "private", "show_progress": "hidden", "queue": False}


@dataclass(frozen=True, slots=True)
class Listing:
    """One page of the list. ``page`` from 0."""

    page: int
    pages: int
    total: int
    rows: tuple[HistoryRow, ...]

    @property
    def words(self) -> str:
        if not self.total:
            return ""
        return f"Page {self.page + 1} of {self.pages}, {plural(self.total, 'comparison')}"


def listing(store: RunStore, page: int, selected: str) -> Listing:
    """The page nearest to the one asked for. Raises StorageError."""
    total = store.count()
    pages = max(1, math.ceil(total / PAGE))
    page = min(max(0, page), pages - 1)
    frame = store.comparisons(limit=PAGE, offset=page * PAGE)
    return Listing(page, pages, total, tuple(_row(record, selected) for _, record in frame.iterrows()))


def _row(record: pd.Series[Any], selected: str) -> HistoryRow:
    speeds, taus, tokens = record["tokens_per_s"], record["tau"], record["new_tokens"]
    numbers = (
        f"{number(s)} tok/s, τ {number(t)}, {count(n)} tokens" for s, t, n in zip(speeds, taus, tokens, strict=True)
    )
    lanes = tuple(HistoryLane(_rule(rule), text) for rule, text in zip(record["rules"], numbers, strict=True))
    states = [str(status) for status in record["status"]]
    status = next((state for state in states if state != "completed"), "completed" if len(states) > 1 else "cancelled")
    factor = ratio(over(speeds[1], speeds[0])) if len(speeds) == 2 and status == "completed" else ""
    created = record["created_at"].isoformat()
    return HistoryRow(record["id"], created, shorten(record["prompt"]), lanes, factor, status, record["id"] == selected)


def _rule(label: str) -> str:
    """``mars(theta=0.9)`` of the store as ``MARS θ = 0.9``."""
    name, _, values = label.removesuffix(")").partition("(")
    pairs = (value.partition("=") for value in values.split(", ") if value)
    return " ".join(
        [rule_title(name), ", ".join(f"{parameter_title(key)} = {value}" for key, _, value in pairs)]
    ).strip()


def reopened(stored: StoredComparison) -> Result:
    """The result view of a stored comparison, from its traces alone."""
    traces = {run.lane: run.trace for run in stored.runs}
    lanes = max(LEAST_LANES, *(lane + 1 for lane in traces), 0)
    labels = [lane_label(traces[lane].config) if lane in traces else OTHER for lane in range(lanes)]
    return ended_result(traces, stored.id, labels)


@dataclass(frozen=True, slots=True)
class _Parts:
    """The components of the tab that events change."""

    rows: gr.HTML
    position: gr.HTML
    newer: gr.Button
    older: gr.Button
    downloads: gr.HTML
    opened: gr.Column
    prompt: gr.Textbox
    settings: gr.HTML
    view: ResultView
    page: gr.State
    selected: gr.State

    @property
    def list_outputs(self) -> list[Any]:
        return [self.rows, self.position, self.newer, self.older, self.page]

    @property
    def outputs(self) -> list[Any]:
        return [
            *self.list_outputs,
            self.selected,
            self.downloads,
            self.opened,
            self.prompt,
            self.settings,
            *self.view.outputs,
            *self.view.cards,
        ]


def build_history_tab(workplace: Workplace, tab: gr.Tab) -> None:
    """The tab's components and events; its list is read whenever the tab is chosen."""
    page, selected = gr.State(0), gr.State("")
    with gr.Column(elem_classes=["mars-panel"]):
        with gr.Row(elem_classes=["mars-tools"]):
            refresh = gr.Button("Refresh", size="sm", elem_id="history-refresh")
            newer = gr.Button("Newer", size="sm", interactive=False)
            older = gr.Button("Older", size="sm", interactive=False)
            position = text_component("mars-page")
        rows = history_component(NOTHING)
        downloads = downloads_component()
    with gr.Column(visible=False, elem_classes=["mars-details"]) as opened:
        with gr.Column(elem_classes=["mars-panel"]):
            prompt = gr.Textbox(label="Prompt", interactive=False, lines=1, max_lines=6, elem_id="history-prompt")
            settings = text_component("mars-page")
        empty = tuple(LaneView("") for _ in range(MOST_LANES))
        view = build_result("history", words("Choose a comparison from the list."), empty)
    parts = _Parts(rows, position, newer, older, downloads, opened, prompt, settings, view, page, selected)
    _wire(workplace.store, parts, tab, refresh)


def _wire(store: RunStore, parts: _Parts, tab: gr.Tab, refresh: gr.Button) -> None:
    def at(page: int, selected: str) -> Updates:
        return _list_updates(store, parts, page, selected)

    def choose(page: int, event: gr.EventData) -> Updates:
        chosen = str(event._data.get("id", ""))
        return _opened(store, parts, chosen) | {parts.selected: chosen} | at(page, chosen)

    state = [parts.page, parts.selected]
    gr.on([tab.select, refresh.click], at, state, parts.list_outputs, **PRIVATE)
    parts.newer.click(lambda page, chosen: at(page - 1, chosen), state, parts.list_outputs, **PRIVATE)
    parts.older.click(lambda page, chosen: at(page + 1, chosen), state, parts.list_outputs, **PRIVATE)
    parts.rows.select(choose, parts.page, parts.outputs, **PRIVATE)


def _list_updates(store: RunStore, parts: _Parts, page: int, selected: str) -> Updates:
    try:
        shown = listing(store, page, selected)
    except StorageError as error:
        return {parts.rows: history_json((), str(error))}
    return {
        parts.rows: history_json(shown.rows, NOTHING),
        parts.position: shown.words,
        parts.newer: gr.update(interactive=shown.page > 0),
        parts.older: gr.update(interactive=shown.page + 1 < shown.pages),
        parts.page: shown.page,
    }


def _opened(store: RunStore, parts: _Parts, chosen: str) -> Updates:
    try:
        stored = store.load(chosen)
    except StorageError as error:
        return (
            {parts.opened: gr.update(visible=True)}
            | parts.view.update(words(str(error), "failed"), ())
            | parts.view.show(None)
        )
    result = reopened(stored)
    view = parts.view
    shown = view.update(result.strip, result.lanes) | view.show_lanes(len(result.lanes)) | view.show(result.details)
    head = {
        parts.opened: gr.update(visible=True),
        parts.prompt: displayable(stored.prompt.text),
        parts.settings: shown_settings(stored),
        parts.downloads: downloads_json(chosen),
    }
    return head | shown


def shown_settings(stored: StoredComparison) -> str:
    """The settings of the run that drafted, if one did: they say more."""
    configs = sorted((run.trace.config for run in stored.runs), key=lambda config: config.drafter.kind == "none")
    return settings_line(configs[0]) if configs else ""
