"""The History tab: the components and what each deed on them does. The address of the page is its one state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import gradio as gr

from storage import RunStore, StorageError
from ui.address import Address, address_json, history_words, read_address, search_query, without_search
from ui.downloads import FILES, VOTE_FILES, Group, downloads_component, downloads_json
from ui.format import displayable
from ui.history.deeds import act, chosen_runs, table_of
from ui.history.detail import Detail, build_detail, open_updates, read_tags
from ui.history.list import SILENT, Notice, failed_listing, list_component, listing
from ui.history.reopen import title_of
from ui.history.runs import RunTable
from ui.history.runs_panel import runs_component, runs_json
from ui.history.search import NO_CHOICES, search_component, search_json, searched
from ui.result_view import Updates
from ui.workplace import Workplace

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
    page's keeper of the view."""

    store: RunStore
    address: gr.HTML
    session: gr.State
    search: gr.HTML
    rows: gr.HTML
    downloads: gr.HTML
    runs: gr.HTML
    detail: Detail

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
            shown, choices = failed_listing(str(error)), NO_CHOICES
        return {
            self.session: view,
            self.search: search_json(view, choices),
            self.rows: shown.json(notice),
            self.downloads: downloads_json(*_groups(view)),
            self.address: address_json(history_words(view)),
        }

    def compared(self, view: Address) -> tuple[Address, Updates]:
        """The table of the view's runs; runs that are no longer there are left out of both."""
        runs, message = chosen_runs(self.store, view.runs)
        view = replace(view, runs=tuple(run.id for run in runs))
        return view, {self.runs: runs_json(table_of(runs) if runs else RunTable(), message)}

    def opened(self, view: Address) -> tuple[Address, Updates]:
        """The view's comparison, or none."""
        if not view.comparison:
            return view, self.detail.closed()
        updates, there = open_updates(self.store, self.detail, view.comparison, view.runs)
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
        runs, _ = chosen_runs(self.store, view.runs)
        return {self.runs: runs_json(table_of(runs), message)}

    def saved(self, view: Address, name: str, tags: str, comment: str) -> Updates:
        """The notes of the open comparison are written."""
        try:
            self.store.annotate(view.comparison, name=name.strip(), tags=read_tags(tags), comment=comment)
        except StorageError as error:
            return {self.detail.saved: displayable(str(error))}
        view, runs = self.compared(view)
        return runs | self.listed(view) | {self.detail.saved: "Saved."}

    def deleted(self, view: Address) -> Updates:
        """The open comparison goes; a line above the list brings it back."""
        try:
            title = title_of(self.store.load(view.comparison))
            self.store.delete(view.comparison)
        except StorageError as error:
            return {self.detail.saved: displayable(str(error))}
        notice = Notice(f"Deleted “{title}”.", view.comparison)
        view, runs = self.compared(replace(view, comparison=""))
        return self.detail.closed() | runs | self.listed(view, notice)

    def restored(self, comparison: str) -> Notice:
        try:
            self.store.restore(comparison)
        except StorageError as error:
            return Notice(displayable(str(error)))
        return Notice("It is back.")

    def closed(self, view: Address) -> Updates:
        return self.detail.closed() | self.listed(replace(view, comparison=""))


def _groups(view: Address) -> list[Group]:
    groups = [Group("All:", (*FILES, *VOTE_FILES), "")]
    return groups + ([Group("Found:", tuple(FILES), search_query(view))] if view.searching else [])


def build_history_tab(workplace: Workplace, tab: gr.Tab, address: gr.HTML) -> History:
    """The tab's components and events; its list is read whenever the tab is chosen. ``address``: of ui.address."""
    history = history_parts(workplace.store, address)
    _wire(history, tab)
    return history


def history_parts(store: RunStore, address: gr.HTML) -> History:
    """The components alone."""
    session = gr.State(Session())
    with gr.Column(elem_classes=["mars-panel"]):
        search = search_component()
        rows = list_component()
        downloads = downloads_component("downloads")
    return History(store, address, session, search, rows, downloads, runs_component(), build_detail())


def _wire(history: History, tab: gr.Tab) -> None:
    session, detail, outputs = history.session, history.detail, history.outputs

    def within(session: Session, change: Callable[[Address], Updates]) -> Updates:
        with session.lock:
            updates = change(session.view)
            session.view = updates.pop(history.session, session.view)
        return updates

    def show(session: Session) -> Updates:
        updates = within(session, history.listed)
        return {component: updates[component] for component in history.light}

    def go(session: Session, event: gr.EventData) -> Updates:
        return within(session, lambda _: history.go(read_address(event._data)))

    def deed(session: Session, event: gr.EventData) -> Updates:
        return within(session, lambda view: history.deed(view, event._data))

    def search(session: Session, event: gr.EventData) -> Updates:
        return within(session, lambda view: history.searched(view, event._data))

    def save(session: Session, name: str, tags: str, comment: str) -> Updates:
        return within(session, lambda view: history.saved(view, name, tags, comment))

    tab.select(show, session, history.light, **PRIVATE)
    history.address.input(go, session, outputs, **PRIVATE)
    history.search.select(search, session, outputs, **PRIVATE)
    gr.on([history.rows.select, history.runs.select], deed, session, outputs, **PRIVATE)
    gr.on(
        [detail.save.click, detail.name.submit, detail.tags.submit], save, [session, *detail.notes], outputs, **PRIVATE
    )
    detail.delete.click(lambda session: within(session, history.deleted), session, outputs, **PRIVATE)
    detail.close.click(lambda session: within(session, history.closed), session, outputs, **PRIVATE)
