"""The History tab: its components, and what they become after each action. The address of the page
is its one state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import replace
from secrets import token_hex
from threading import Lock
from typing import Any

import gradio as gr

from storage import RunRecord, Shared, StorageError
from ui.jobs.services import Services
from ui.kit.address import (
    Address,
    address_patch,
    history_parameters,
    read_address,
    search_query,
    without_search,
)
from ui.kit.components import (
    OTHER_FILES,
    RUN_FILES,
    DownloadGroup,
    downloads_component,
    downloads_html,
)
from ui.kit.events import LATEST, PRIVATE, Updates, event_data
from ui.kit.panel import panel_component, stamped
from ui.result.result import title_of
from ui.sharing import reading, share_of, wire_share
from ui.tabs.history.detail import Detail, Notes, entered_notes
from ui.tabs.history.list import (
    NO_CHOICES,
    NOTHING,
    SILENT,
    ComparisonPage,
    Notice,
    listing,
    search_html,
    searched,
)
from ui.tabs.history.runs import (
    RunTable,
    acted,
    chosen_runs,
    run_table,
    runs_html,
)


class HistorySession:
    """What one visitor sees. Actions that follow each other quickly are answered in threads of
    their own: the lock puts them in order."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.view = Address()

    def __deepcopy__(self, _: object) -> HistorySession:
        """Give every visitor one of their own."""
        return HistorySession()


class HistoryTab:
    """The components of the tab, and what they become. The updates of every method hold the view at
    ``session``; ``address`` is the page's keeper of the view, ``services`` what the visitor may
    see."""

    def __init__(self, services: Services, address: gr.HTML) -> None:
        self.services, self.address = services, address
        self.session = gr.State(HistorySession())
        self.detail = Detail()
        with gr.Column(elem_classes=["mars-panel"]):
            self.search = panel_component(
                search_html(Address(), NO_CHOICES),
                elem_id="history-search",
                latest=True,
            )
            self.rows = panel_component(
                ComparisonPage(message=NOTHING).html(), elem_id="history-list"
            )
            self.downloads = downloads_component("downloads")
        self.runs = panel_component(runs_html(RunTable()), elem_id="history-runs")
        # those that may change while the tab is only about to appear: a component would
        # lose the properties of such an update. The address is not among them, for what it says may
        # not have been requested yet
        self.light: list[Any] = [self.search, self.rows, self.downloads]
        self.outputs: list[Any] = [*self.light, address, self.runs, *self.detail.outputs]

    def of(self, request: gr.Request) -> HistoryTab:
        """Return the same components for every visitor."""
        visited = copy(self)
        visited.services = self.services.for_visitor(request)
        return visited

    def list_updates(
        self, view: Address, notice: Notice = SILENT, *, search: bool = True
    ) -> Updates:
        """List and address for this view, and ``search``: its fields with what they offer now."""
        choices = NO_CHOICES
        try:
            comparisons = listing(self.services.store, view)
            view = replace(view, list_page=comparisons.page)
            choices = self.services.store.choices() if search else choices
        except StorageError as error:
            comparisons = ComparisonPage(message=self.services.sentence(error))
        return ({self.search: stamped(search_html(view, choices))} if search else {}) | {
            self.session: view,
            self.rows: stamped(comparisons.html(notice)),
            self.downloads: downloads_html(*_groups(view)),
            self.address: address_patch("history", history_parameters(view)),
        }

    def compared(self, view: Address, message: str = "") -> tuple[Address, Updates]:
        """Return the table of the view's runs; runs that are no longer there are left out of both.
        ``message``: what was not done."""
        runs, missing, share = self._chosen(view)
        view = replace(view, runs=tuple(run.id for run in runs))
        return view, {self.runs: stamped(runs_html(run_table(runs), message or missing, share))}

    def _chosen(self, view: Address) -> tuple[tuple[RunRecord, ...], str, str]:
        """Return the view's runs, a message on missing ones, and the token of the link they are
        read through: of all of them, or of none."""
        if view.share and view.runs:
            with suppress(StorageError):
                store = self.services.store.through(view.share)
                store.records(
                    view.runs
                )  # all of them, else they are looked for among the visitor's
                return *chosen_runs(store, view.runs), view.share
        return *chosen_runs(self.services.store, view.runs), ""

    def opened(self, view: Address) -> tuple[Address, Updates]:
        """Return the view's comparison, or none; the visitor's can be shared."""
        view, updates = self._opened(view)
        shareable = "" if view.share else view.comparison
        return view, updates | {
            self.detail.sharing: share_of(self.services, Shared.COMPARISON, shareable).html()
        }

    def _opened(self, view: Address) -> tuple[Address, Updates]:
        """Return the view's comparison: the visitor's, else what its link shows, or none."""
        if not view.comparison:
            return view, self.detail.closed()
        try:
            stored, share = reading(
                self.services.store, view.share, lambda store: store.load(view.comparison)
            )
        except StorageError as error:
            failed = self.detail.failed(self.services.sentence(error))
            return replace(view, comparison="", share=""), failed
        return replace(view, share=share), self.detail.opened(stored, view.runs, share)

    def go(self, view: Address) -> Updates:
        """Show all of the tab as an address says."""
        view, detail = self.opened(view)
        view, runs = self.compared(view)
        return detail | runs | self.list_updates(view)

    def searched(self, view: Address, data: Mapping[str, Any]) -> Updates:
        view = searched(view, data)
        return self.list_updates(without_search(view) if data.get("action") == "clear" else view)

    def act(self, view: Address, data: Mapping[str, Any]) -> Updates:
        match data.get("action"):
            case "save" | "delete" as action:
                notes = entered_notes(view.comparison, view.share, data)
                return self.saved(view, notes) if action == "save" else self.deleted(view, notes)
            case "close":
                view = replace(view, comparison="", share="")
                return self.detail.closed() | self.list_updates(view, search=False)
        changed, message = acted(self.services.store, view, data)
        updates: Updates = {}
        notice = self.restored(str(data.get("id", ""))) if data.get("action") == "undo" else SILENT
        notice = replace(notice, refusal=token_hex(4)) if message else notice
        if data.get("action") == "open" and changed.comparison:
            changed, updates = self.opened(changed)
        if changed.runs != view.runs or message:
            changed, table = self.compared(changed, message)
            updates |= table
        return updates | self.list_updates(
            changed, notice, search=data.get("action") in ("clear", "model", "undo")
        )

    def saved(self, view: Address, notes: Notes) -> Updates:
        if view.share:
            return {self.detail.foot: notes.html()}
        try:
            tags = notes.tags.split(",")
            self.services.store.annotate(
                view.comparison, name=notes.name, tags=tags, comment=notes.comment
            )
        except StorageError as error:
            return {self.detail.foot: notes.html(self.services.sentence(error))}
        view, runs = self.compared(view)
        return runs | self.list_updates(view) | {self.detail.foot: notes.html("Saved.")}

    def deleted(self, view: Address, notes: Notes) -> Updates:
        """Delete the open comparison; a line above the list brings it back."""
        if view.share:
            return {self.detail.foot: notes.html()}
        try:
            title = title_of(self.services.store.load(view.comparison))
            self.services.store.delete(view.comparison)
        except StorageError as error:
            return {self.detail.foot: notes.html(self.services.sentence(error))}
        notice = Notice(f"Deleted “{title}”.", view.comparison)
        view, runs = self.compared(replace(view, comparison=""))
        return self.detail.closed() | runs | self.list_updates(view, notice)

    def restored(self, comparison: str) -> Notice:
        try:
            self.services.store.restore(comparison)
        except StorageError as error:
            return Notice(self.services.sentence(error))
        return Notice("Restored.")

    def wire(self, tab: gr.Tab) -> None:
        """Have the list read whenever ``tab`` is chosen."""
        session, outputs = self.session, self.outputs
        on = self._handler
        tab.select(self.show, session, self.light, **PRIVATE)
        go = on("go", lambda history, _, data: history.go(read_address(data)))
        self.address.input(go, session, outputs, **LATEST)
        self.search.select(on("search", HistoryTab.searched), session, outputs, **LATEST)
        panels = (self.rows, self.runs, self.detail.head, self.detail.foot)
        acted, chosen = on("act", HistoryTab.act), [panel.select for panel in panels]
        gr.on(chosen, acted, session, outputs, trigger_mode="multiple", **PRIVATE)
        wire_share(self.services, self.detail.sharing)

    def _handler(
        self, name: str, change: Callable[[HistoryTab, Address, Mapping[str, Any]], Updates]
    ) -> Callable[..., Updates]:
        """``name``: of the event, in the log."""

        def handle(session: HistorySession, event: gr.EventData, request: gr.Request) -> Updates:
            return self._within(
                session, lambda view: change(self.of(request), view, event_data(event))
            )

        handle.__name__ = name
        return handle

    def _within(self, session: HistorySession, change: Callable[[Address], Updates]) -> Updates:
        with session.lock:
            updates = change(session.view)
            session.view = updates.pop(self.session, session.view)
        return updates

    def show(self, session: HistorySession, request: gr.Request) -> Updates:
        updates = self._within(session, self.of(request).list_updates)
        return {component: updates[component] for component in self.light}


def _groups(view: Address) -> list[DownloadGroup]:
    groups = [("All:", (*RUN_FILES, *OTHER_FILES), "")]
    return groups + ([("Found:", RUN_FILES, search_query(view))] if view.searching else [])
