"""The History tab: the components and what each deed on them does. The address of the page is its one state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import gradio as gr

from storage import RunRecord, RunStore, Shared, StorageError
from ui.kit.address import Address, address_json, history_words, read_address, search_query, without_search
from ui.kit.event_data import said_of
from ui.kit.format import displayable
from ui.kit.told import told
from ui.report.downloads import FILES, VOTE_FILES, Group, downloads_component, downloads_json
from ui.result.view import Updates
from ui.services import Services
from ui.tabs.history.deeds import act, chosen_runs, table_of
from ui.tabs.history.detail import READ_ONLY, Detail, build_detail, open_updates, read_tags
from ui.tabs.history.list import SILENT, Notice, failed_listing, list_component, listing
from ui.tabs.history.reopen import title_of
from ui.tabs.history.runs import RunTable
from ui.tabs.history.runs_panel import runs_component, runs_json
from ui.tabs.history.search import NO_CHOICES, search_component, search_json, searched
from ui.tabs.history.share import share_json, wire_share

PRIVATE: Mapping[str, Any] = {"api_visibility": "private", "show_progress": "hidden", "queue": False}


class Session:
    """What one visitor sees. Deeds that follow each other quickly are answered in threads of their own: the lock puts them in order."""

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

    def said(self, error: StorageError) -> str:
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
            shown, choices = failed_listing(self.said(error)), NO_CHOICES
        return {
            self.session: view,
            self.search: search_json(view, choices),
            self.rows: shown.json(notice),
            self.downloads: downloads_json(*_groups(view)),
            self.address: address_json(history_words(view)),
        }

    def compared(self, view: Address) -> tuple[Address, Updates]:
        """The table of the view's runs; runs that are no longer there are left out of both."""
        runs, message, share = self._chosen(view)
        view = replace(view, runs=tuple(run.id for run in runs))
        return view, {self.runs: runs_json(table_of(runs) if runs else RunTable(), message, share)}

    def _chosen(self, view: Address) -> tuple[tuple[RunRecord, ...], str, str]:
        """The view's runs, what is said of them, and the token of the link they are read through: of all of them, or of none."""
        if view.share and view.runs:
            with suppress(StorageError):
                store = self._shared(view)
                store.records(view.runs)  # all of them, else they are looked for among one's own
                return *chosen_runs(store, view.runs), view.share
        return *chosen_runs(self.store, view.runs), ""

    def _shared(self, view: Address) -> RunStore:
        """What the view's link shows. Raises StorageError."""
        return self.store.through(view.share)

    def opened(self, view: Address) -> tuple[Address, Updates]:
        """The view's comparison, or none; one's own can be shared."""
        view, updates = self._opened(view)
        own = "" if view.share else view.comparison
        return view, updates | {self.detail.sharing: share_json(self.store, Shared.COMPARISON, own, public=self.public)}

    def _opened(self, view: Address) -> tuple[Address, Updates]:
        """The view's comparison, or none."""
        if not view.comparison:
            return view, self.detail.closed()
        updates, there = open_updates(self.store, self.detail, view.comparison, view.runs, public=self.public)
        if there or not view.share:
            return (replace(view, share="") if there else replace(view, comparison="")), updates
        return self._opened_through(view)

    def _opened_through(self, view: Address) -> tuple[Address, Updates]:
        """What is not one's own, through the view's link."""
        try:
            store = self._shared(view)
        except StorageError as error:
            return replace(view, comparison="", share=""), self.detail.failed(self.said(error))
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
        view = searched(view, data.get("fields") or {})
        return self.listed(without_search(view) if data.get("deed") == "clear" else view)

    def deed(self, view: Address, data: Mapping[str, Any]) -> Updates:
        """What a deed on the search, the list or the table of runs changes."""
        fresh, message = act(self.store, view, data)
        updates: Updates = {}
        notice = SILENT
        if data.get("deed") == "undo":
            notice = self.restored(str(data.get("id", "")))
        if data.get("deed") == "open" and fresh.comparison:
            fresh, updates = self.opened(fresh)
        if fresh.runs != view.runs or message:
            fresh, table = self.compared(fresh) if not message else (fresh, self._refused(fresh, message))
            updates |= table
        return updates | self.listed(fresh, notice)

    def _refused(self, view: Address, message: str) -> Updates:
        runs, _, share = self._chosen(view)
        return {self.runs: runs_json(table_of(runs), message, share)}

    def saved(self, view: Address, name: str, tags: str, comment: str) -> Updates:
        """The notes of the open comparison are written."""
        if view.share:
            return {self.detail.saved: READ_ONLY}
        try:
            self.store.annotate(view.comparison, name=name.strip(), tags=read_tags(tags), comment=comment)
        except StorageError as error:
            return {self.detail.saved: displayable(self.said(error))}
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
            return {self.detail.saved: displayable(self.said(error))}
        notice = Notice(f"Deleted “{title}”.", view.comparison)
        view, runs = self.compared(replace(view, comparison=""))
        return self.detail.closed() | runs | self.listed(view, notice)

    def restored(self, comparison: str) -> Notice:
        try:
            self.store.restore(comparison)
        except StorageError as error:
            return Notice(displayable(self.said(error)))
        return Notice("It is back.")

    def closed(self, view: Address) -> Updates:
        return self.detail.closed() | self.listed(replace(view, comparison="", share=""))


def _groups(view: Address) -> list[Group]:
    groups = [Group("All:", (*FILES, *VOTE_FILES), "")]
    return groups + ([Group("Found:", tuple(FILES), search_query(view))] if view.searching else [])


def build_history_tab(services: Services, tab: gr.Tab, address: gr.HTML) -> History:
    """The tab's components and events; its list is read whenever the tab is chosen. ``address``: of ui.kit.address."""
    history = history_parts(services.store, address)
    _wire(services, history, tab)
    return history


def history_parts(store: RunStore, address: gr.HTML) -> History:
    """The components alone."""
    session = gr.State(Session())
    with gr.Column(elem_classes=["mars-panel"]):
        search = search_component()
        rows = list_component()
        downloads = downloads_component("downloads")
    return History(store, address, session, search, rows, downloads, runs_component(), build_detail())


def _wire(services: Services, history: History, tab: gr.Tab) -> None:
    session, detail, outputs = history.session, history.detail, history.outputs

    def mine(request: gr.Request) -> History:
        return history.of(services.seen_by(request))

    def within(session: Session, change: Callable[[Address], Updates]) -> Updates:
        with session.lock:
            updates = change(session.view)
            session.view = updates.pop(history.session, session.view)
        return updates

    def show(session: Session, request: gr.Request) -> Updates:
        updates = within(session, mine(request).listed)
        return {component: updates[component] for component in history.light}

    def go(session: Session, event: gr.EventData, request: gr.Request) -> Updates:
        return within(session, lambda _: mine(request).go(read_address(said_of(event))))

    def deed(session: Session, event: gr.EventData, request: gr.Request) -> Updates:
        return within(session, lambda view: mine(request).deed(view, said_of(event)))

    def search(session: Session, event: gr.EventData, request: gr.Request) -> Updates:
        return within(session, lambda view: mine(request).searched(view, said_of(event)))

    def save(session: Session, name: str, tags: str, comment: str, request: gr.Request) -> Updates:
        return within(session, lambda view: mine(request).saved(view, name or "", tags or "", comment or ""))

    def delete(session: Session, request: gr.Request) -> Updates:
        return within(session, mine(request).deleted)

    def close(session: Session, request: gr.Request) -> Updates:
        return within(session, mine(request).closed)

    tab.select(show, session, history.light, **PRIVATE)
    history.address.input(go, session, outputs, **PRIVATE)
    history.search.select(search, session, outputs, **PRIVATE)
    gr.on([history.rows.select, history.runs.select], deed, session, outputs, **PRIVATE)
    gr.on(
        [detail.save.click, detail.name.submit, detail.tags.submit], save, [session, *detail.notes], outputs, **PRIVATE
    )
    detail.delete.click(delete, session, outputs, **PRIVATE)
    detail.close.click(close, session, outputs, **PRIVATE)
    wire_share(services, detail.sharing)
