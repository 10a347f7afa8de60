"""The History tab: its components, and what they become after each action. The address of the page is its one state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import replace
from secrets import token_hex
from threading import Lock
from typing import Any

import gradio as gr

from evaluation.format import displayable
from storage import RunRecord, RunStore, Shared, StorageError
from ui.jobs.services import Services
from ui.kit.address import Address, history_parameters, read_address, search_query, without_search
from ui.kit.assets import to_json
from ui.kit.components import RUN_FILES, VOTE_FILES, Group, downloads_component, downloads_html
from ui.kit.errors import error_message
from ui.kit.events import PRIVATE, event_data
from ui.kit.panel import panel_component, stamp, stamped
from ui.result.result import title_of
from ui.result.stored_runs import StoredRuns
from ui.result.view import Updates
from ui.sharing import READ_ONLY, share_html, wire_share
from ui.tabs.history.detail import Detail, read_tags
from ui.tabs.history.list import NO_CHOICES, NOTHING, SILENT, Listing, Notice, listing, search_html, searched
from ui.tabs.history.runs import RunTable, acted, chosen_runs, run_table, runs_html


class Session:
    """What one visitor sees. Actions that follow each other quickly are answered in threads of their own: the lock puts them in order."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.view = Address()

    def __deepcopy__(self, _: object) -> Session:
        """Every visitor gets one of their own."""
        return Session()


class History:
    """The components of the tab, and what they become. The updates of every method hold the view at ``session``; ``address`` is the
    page's keeper of the view, ``store`` what the visitor may see."""

    def __init__(self, store: RunStore, address: gr.HTML, stored: StoredRuns) -> None:
        self.store, self.address, self.public = store, address, False
        self.session = gr.State(Session())
        self.detail = Detail(stored)
        with gr.Column(elem_classes=["mars-panel"]):
            self.search = panel_component(search_html(Address(), NO_CHOICES), elem_id="history-search")
            self.rows = panel_component(Listing(message=NOTHING).html(), elem_id="history-list")
            self.downloads = downloads_component("downloads")
        self.runs = panel_component(runs_html(RunTable()), elem_id="history-runs")

    def of(self, services: Services) -> History:
        """The same components for the visitor of ``services``."""
        visited = copy(self)
        visited.store, visited.public = services.store, services.public
        return visited

    def message(self, error: StorageError) -> str:
        return error_message(error, public=self.public)

    @property
    def light(self) -> list[Any]:
        """Those that may change while the tab is only about to appear: a component that has properties of its own would lose them.
        The address is not among them, for what it says may not have been asked for yet."""
        return [self.search, self.rows, self.downloads]

    @property
    def outputs(self) -> list[Any]:
        return [*self.light, self.address, self.runs, *self.detail.outputs]

    def listed(self, view: Address, notice: Notice = SILENT, *, search: bool = True) -> Updates:
        """List and address for this view, and ``search``: its fields with what they offer now."""
        choices = NO_CHOICES
        try:
            shown = listing(self.store, view)
            view = replace(view, page=shown.page)
            choices = self.store.choices() if search else choices
        except StorageError as error:
            shown = Listing(message=self.message(error))
        return ({self.search: stamped(search_html(view, choices))} if search else {}) | {
            self.session: view,
            self.rows: stamped(shown.html(notice)),
            self.downloads: downloads_html(*_groups(view)),
            self.address: to_json({"at": stamp(), **history_parameters(view)}),
        }

    def compared(self, view: Address, message: str = "") -> tuple[Address, Updates]:
        """The table of the view's runs; runs that are no longer there are left out of both. ``message``: what was not done."""
        runs, missing, share = self._chosen(view)
        view = replace(view, runs=tuple(run.id for run in runs))
        return view, {self.runs: stamped(runs_html(run_table(runs), message or missing, share))}

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
        try:
            return replace(view, share=""), self.detail.opened(self.store.load(view.comparison), view.runs)
        except StorageError as error:
            message, share = self.message(error), ""
        if view.share:
            try:
                store, share = self.store.through(view.share), view.share
                return view, self.detail.opened(store.load(view.comparison), view.runs, share)
            except StorageError as error:
                message = self.message(error)
        return replace(view, comparison="", share=share), self.detail.failed(message)

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
        notice = replace(notice, refusal=token_hex(4)) if message else notice
        if data.get("action") == "open" and fresh.comparison:
            fresh, updates = self.opened(fresh)
        if fresh.runs != view.runs or message:
            fresh, table = self.compared(fresh, message)
            updates |= table
        return updates | self.listed(fresh, notice, search=data.get("action") in ("clear", "undo"))

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
        return self.detail.closed() | self.listed(replace(view, comparison="", share=""), search=False)


def _groups(view: Address) -> list[Group]:
    groups = [Group("All:", (*RUN_FILES, *VOTE_FILES), "")]
    return groups + ([Group("Found:", RUN_FILES, search_query(view))] if view.searching else [])


def build_history_tab(services: Services, tab: gr.Tab, address: gr.HTML) -> History:
    """The tab's components and events; its list is read whenever the tab is chosen. ``address``: of ui.kit.address."""
    history = History(services.store, address, StoredRuns(services))
    session, detail, outputs = history.session, history.detail, history.outputs

    def own(request: gr.Request) -> History:
        return history.of(services.seen_by(request))

    def within(session: Session, change: Callable[[Address], Updates]) -> Updates:
        with session.lock:
            updates = change(session.view)
            session.view = updates.pop(history.session, session.view)
        return updates

    def handler(name: str, change: Callable[[History, Address, Mapping[str, Any]], Updates]) -> Callable[..., Updates]:
        """``name``: of the event, in the log."""

        def handle(session: Session, event: gr.EventData, request: gr.Request) -> Updates:
            return within(session, lambda view: change(own(request), view, event_data(event)))

        handle.__name__ = name
        return handle

    def show(session: Session, request: gr.Request) -> Updates:
        updates = within(session, own(request).listed)
        return {component: updates[component] for component in history.light}

    def save(session: Session, name: str, tags: str, comment: str, request: gr.Request) -> Updates:
        return within(session, lambda view: own(request).saved(view, name or "", tags or "", comment or ""))

    go = handler("go", lambda visited, _, data: visited.go(read_address(data)))
    delete = handler("delete", lambda visited, view, _: visited.deleted(view))
    close = handler("close", lambda visited, view, _: visited.closed(view))
    tab.select(show, session, history.light, **PRIVATE)
    history.address.input(go, session, outputs, **PRIVATE)
    history.search.select(handler("search", History.searched), session, outputs, **PRIVATE)
    gr.on([history.rows.select, history.runs.select], handler("act", History.act), session, outputs,
          trigger_mode="multiple", **PRIVATE)  # fmt: skip
    noted = [detail.save.click, detail.name.submit, detail.tags.submit]
    gr.on(noted, save, [session, *detail.notes], outputs, **PRIVATE)
    detail.delete.click(delete, session, outputs, **PRIVATE)
    detail.close.click(close, session, outputs, **PRIVATE)
    wire_share(services, detail.sharing)
    return history
