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

from storage import Shared, StorageError
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
from ui.tabs.history.detail import Detail, entered_notes
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
from ui.tabs.history.runs import acted, chosen_runs, runs_html


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
        self.runs = panel_component(runs_html(), elem_id="history-runs")
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
            view = comparisons.address
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
        """Return the table of the view's runs, read through its link where that has all of them;
        runs that are no longer there are left out of both. ``message``: what was not done."""
        store, share = self.services.store, ""
        with suppress(StorageError):
            _, share = reading(store, view.share, lambda each: each.records(view.runs))
            store = store.through(share) if share else store
        runs, missing = chosen_runs(store, view.runs)
        view = replace(view, runs=tuple(run.id for run in runs))
        return view, {self.runs: stamped(runs_html(runs, message or missing, share))}

    def opened(self, view: Address) -> tuple[Address, Updates]:
        """Return the view's comparison: the visitor's, which can be shared, else what its link
        shows, or none."""
        updates = self.detail.closed()
        if view.comparison:
            try:
                stored, share = reading(
                    self.services.store, view.share, lambda store: store.load(view.comparison)
                )
                view = replace(view, share=share)
                updates = self.detail.opened(stored, view.runs, share)
            except StorageError as error:
                updates = self.detail.failed(self.services.sentence(error))
                view = replace(view, comparison="", share="")
        shareable = "" if view.share else view.comparison
        panel = share_of(self.services, Shared.COMPARISON, shareable)
        return view, updates | {self.detail.sharing: panel.html()}

    def go(self, view: Address) -> Updates:
        """Show all of the tab as an address says."""
        view, detail = self.opened(view)
        view, runs = self.compared(view)
        return detail | runs | self.list_updates(view)

    def searched(self, view: Address, data: Mapping[str, Any]) -> Updates:
        view = searched(view, data)
        return self.list_updates(without_search(view) if data.get("action") == "clear" else view)

    def act(self, view: Address, data: Mapping[str, Any]) -> Updates:
        action, notice, updates = data.get("action"), SILENT, Updates()
        match action:
            case "save" | "delete":
                return self.noted(view, data)
            case "close":
                view = replace(view, comparison="", share="")
                return self.detail.closed() | self.list_updates(view, search=False)
            case "undo":
                notice = Notice("Restored.")
                try:
                    self.services.store.restore(read_address(data).comparison)
                except StorageError as error:
                    notice = Notice(self.services.sentence(error))
        changed, message = acted(view, data)
        if message:
            notice = replace(notice, refusal=token_hex(4))
        if action == "open" and changed.comparison:
            changed, updates = self.opened(changed)
        if changed.runs != view.runs or message:
            changed, table = self.compared(changed, message)
            updates |= table
        return updates | self.list_updates(
            changed, notice, search=action in ("clear", "model", "undo")
        )

    def noted(self, view: Address, data: Mapping[str, Any]) -> Updates:
        """Save the notes of the open comparison, or delete it; a line above the list brings it
        back."""
        notes = entered_notes(view.comparison, view.share, data)
        if view.share:
            return {self.detail.foot: notes.html()}
        store, notice = self.services.store, SILENT
        updates = {self.detail.foot: notes.html("Saved.")}
        try:
            if data["action"] == "save":
                store.annotate(
                    view.comparison,
                    name=notes.name,
                    tags=notes.tags.split(","),
                    comment=notes.comment,
                )
            else:
                title = title_of(store.load(view.comparison))
                store.delete(view.comparison)
                notice = Notice(f"Deleted “{title}”.", view.comparison)
                view, updates = replace(view, comparison=""), self.detail.closed()
        except StorageError as error:
            return {self.detail.foot: notes.html(self.services.sentence(error))}
        view, runs = self.compared(view)
        return updates | runs | self.list_updates(view, notice)

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
