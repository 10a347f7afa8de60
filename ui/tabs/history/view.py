"""History as values: its components, and what they become after each action. The address of the page is its one state."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import gradio as gr

from storage import RunRecord, RunStore, Shared, StorageError
from ui.kit.address import ID, Address, address_json, history_parameters, search_query, without_search
from ui.kit.format import displayable
from ui.kit.told import told
from ui.public.share_panel import READ_ONLY, share_html
from ui.report.downloads import FILES, VOTE_FILES, Group, downloads_component, downloads_html
from ui.result.reopened import title_of
from ui.result.result_view import Updates
from ui.services import Services
from ui.tabs.history.detail import Detail, build_detail, open_updates, read_tags
from ui.tabs.history.list import SILENT, Listing, Notice, list_component, listing
from ui.tabs.history.runs import choose_run, chosen_runs, moved_left, run_table, runs_component, runs_html
from ui.tabs.history.search import NO_CHOICES, search_component, search_html, searched


class Session:
    """What one visitor sees. Actions that follow each other quickly are answered in threads of their own: the lock puts them in order."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.view = Address()

    def __deepcopy__(self, _: object) -> Session:
        """Every visitor gets one of their own."""
        return Session()


@dataclass(frozen=True, slots=True)
class History:
    """The components of the tab, and what they become. The updates of every method hold the view at ``session``; ``address`` is the
    page's keeper of the view, ``store`` what the visitor may see."""

    store: RunStore
    address: gr.HTML
    session: gr.State
    search: gr.HTML
    rows: gr.HTML
    downloads: gr.HTML
    runs: gr.HTML
    detail: Detail
    public: bool = False

    def of(self, services: Services) -> History:
        """The same components for the visitor of ``services``."""
        return replace(self, store=services.store, public=services.public)

    def message(self, error: StorageError) -> str:
        return told(error, public=self.public)

    @property
    def light(self) -> list[Any]:
        """Those that may change while the tab is only about to appear: a component that has properties of its own would lose them.
        The address is not among them, for what it says may not have been asked for yet."""
        return [self.search, self.rows, self.downloads]

    @property
    def outputs(self) -> list[Any]:
        return [*self.light, self.address, self.runs, *self.detail.outputs]

    def listed(self, view: Address, notice: Notice = SILENT) -> Updates:
        """Search, list and address for this view."""
        try:
            shown, choices = listing(self.store, view), self.store.choices()
            view = replace(view, page=shown.page)
        except StorageError as error:
            shown, choices = Listing(message=self.message(error)), NO_CHOICES
        return {
            self.session: view,
            self.search: search_html(view, choices),
            self.rows: shown.html(notice),
            self.downloads: downloads_html(*_groups(view)),
            self.address: address_json(history_parameters(view)),
        }

    def compared(self, view: Address, message: str = "") -> tuple[Address, Updates]:
        """The table of the view's runs; runs that are no longer there are left out of both. ``message``: what was not done."""
        runs, missing, share = self._chosen(view)
        view = replace(view, runs=tuple(run.id for run in runs))
        return view, {self.runs: runs_html(run_table(runs), message or missing, share)}

    def _chosen(self, view: Address) -> tuple[tuple[RunRecord, ...], str, str]:
        """The view's runs, a message on missing ones, and the token of the link they are read through: of all of them, or of none."""
        if view.share and view.runs:
            with suppress(StorageError):
                store = self.store.through(view.share)
                store.records(view.runs)  # all of them, else they are looked for among one's own
                return *chosen_runs(store, view.runs), view.share
        return *chosen_runs(self.store, view.runs), ""

    def opened(self, view: Address) -> tuple[Address, Updates]:
        """The view's comparison, or none; one's own can be shared."""
        view, updates = self._opened(view)
        own = "" if view.share else view.comparison
        return view, updates | {self.detail.sharing: share_html(self.store, Shared.COMPARISON, own, public=self.public)}

    def _opened(self, view: Address) -> tuple[Address, Updates]:
        """The view's comparison: one's own, else what its link shows, or none."""
        if not view.comparison:
            return view, self.detail.closed()
        updates, there = open_updates(self.store, self.detail, view.comparison, view.runs, public=self.public)
        if there or not view.share:
            return (replace(view, share="") if there else replace(view, comparison="")), updates
        try:
            store = self.store.through(view.share)
        except StorageError as error:
            return replace(view, comparison="", share=""), self.detail.failed(self.message(error))
        updates, there = open_updates(
            store, self.detail, view.comparison, view.runs, public=self.public, share=view.share
        )
        return (view if there else replace(view, comparison="")), updates

    def go(self, view: Address) -> Updates:
        """All of the tab as an address says."""
        view, detail = self.opened(view)
        view, runs = self.compared(view)
        return detail | runs | self.listed(view)

    def searched(self, view: Address, data: Mapping[str, Any]) -> Updates:
        """The list after the search was changed, cleared or asked for again."""
        view = searched(view, data)
        return self.listed(without_search(view) if data.get("action") == "clear" else view)

    def act(self, view: Address, data: Mapping[str, Any]) -> Updates:
        """What an action on the list or the table of runs changes."""
        fresh, message = acted(self.store, view, data)
        updates: Updates = {}
        notice = self.restored(str(data.get("id", ""))) if data.get("action") == "undo" else SILENT
        if data.get("action") == "open" and fresh.comparison:
            fresh, updates = self.opened(fresh)
        if fresh.runs != view.runs or message:
            fresh, table = self.compared(fresh, message)
            updates |= table
        return updates | self.listed(fresh, notice)

    def saved(self, view: Address, name: str, tags: str, comment: str) -> Updates:
        """The notes of the open comparison are written."""
        if view.share:
            return {self.detail.saved: READ_ONLY}
        try:
            self.store.annotate(view.comparison, name=name.strip(), tags=read_tags(tags), comment=comment)
        except StorageError as error:
            return {self.detail.saved: displayable(self.message(error))}
        view, runs = self.compared(view)
        return runs | self.listed(view) | {self.detail.saved: "Saved."}

    def deleted(self, view: Address) -> Updates:
        """The open comparison goes; a line above the list brings it back."""
        if view.share:
            return {self.detail.saved: READ_ONLY}
        try:
            title = title_of(self.store.load(view.comparison))
            self.store.delete(view.comparison)
        except StorageError as error:
            return {self.detail.saved: displayable(self.message(error))}
        notice = Notice(f"Deleted “{title}”.", view.comparison)
        view, runs = self.compared(replace(view, comparison=""))
        return self.detail.closed() | runs | self.listed(view, notice)

    def restored(self, comparison: str) -> Notice:
        try:
            self.store.restore(comparison)
        except StorageError as error:
            return Notice(self.message(error))
        return Notice("Restored.")

    def closed(self, view: Address) -> Updates:
        return self.detail.closed() | self.listed(replace(view, comparison="", share=""))


def acted(store: RunStore, view: Address, data: Mapping[str, Any]) -> tuple[Address, str]:
    """The view after an action ``{action, id | run | page}`` that a component reported, whatever it holds; and one sentence on what
    was not done."""
    run, action = _id(data.get("run")), data.get("action")
    match action:
        case "open":
            opened = _id(data.get("id"))
            return (replace(view, comparison=opened, share="") if opened else view), ""
        case "page":
            page = data.get("page")
            return replace(view, page=page if isinstance(page, int) else 1), ""
        case "clear":
            return without_search(view), ""
        case "choose" if data.get("checked", True):
            runs, message = choose_run(store, view.runs, run)
            return replace(view, runs=runs), message
        case "choose" | "drop":
            return replace(view, runs=tuple(other for other in view.runs if other != run)), ""
        case "left":
            return replace(view, runs=moved_left(view.runs, run)), ""
        case "none":
            return replace(view, runs=()), ""
        case _:
            return view, ""


def _id(text: object) -> str:
    return text if isinstance(text, str) and ID.fullmatch(text) else ""


def _groups(view: Address) -> list[Group]:
    groups = [Group("All:", (*FILES, *VOTE_FILES), "")]
    return groups + ([Group("Found:", tuple(FILES), search_query(view))] if view.searching else [])


def history_parts(store: RunStore, address: gr.HTML) -> History:
    """The components alone."""
    session = gr.State(Session())
    with gr.Column(elem_classes=["mars-panel"]):
        search = search_component()
        rows = list_component()
        downloads = downloads_component("downloads")
    return History(store, address, session, search, rows, downloads, runs_component(), build_detail())
