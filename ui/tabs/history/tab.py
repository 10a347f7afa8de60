"""The History tab: its components and their events."""

from __future__ import annotations

from collections.abc import Callable

import gradio as gr

from ui.jobs.admission import check_own
from ui.kit.address import Address, read_address
from ui.kit.events import PRIVATE, event_data
from ui.public.share_panel import wire_share
from ui.result.reopened import few
from ui.result.result_view import Updates
from ui.services import Services
from ui.settings.form import CUSTOM, Form
from ui.settings.stored import stored_form
from ui.tabs.history.view import History, Session, history_parts


def build_history_tab(services: Services, tab: gr.Tab, address: gr.HTML) -> History:
    """The tab's components and events; its list is read whenever the tab is chosen. ``address``: of ui.kit.address."""
    history = history_parts(services.store, address)
    _wire(services, history, tab)
    return history


def open_form(services: Services, view: Address) -> Form:
    """The fields of Compare that ask for the open comparison again. Raises StorageError and ValueError."""
    store = services.store.through(view.share) if view.share else services.store
    form = stored_form(few(store.load(view.comparison), view.runs), services.catalog)
    if form.pair == CUSTOM:
        check_own(services)
    return form


def _wire(services: Services, history: History, tab: gr.Tab) -> None:
    session, detail, outputs = history.session, history.detail, history.outputs

    def own(request: gr.Request) -> History:
        return history.of(services.seen_by(request))

    def within(session: Session, change: Callable[[Address], Updates]) -> Updates:
        with session.lock:
            updates = change(session.view)
            session.view = updates.pop(history.session, session.view)
        return updates

    def show(session: Session, request: gr.Request) -> Updates:
        updates = within(session, own(request).listed)
        return {component: updates[component] for component in history.light}

    def go(session: Session, event: gr.EventData, request: gr.Request) -> Updates:
        return within(session, lambda _: own(request).go(read_address(event_data(event))))

    def act(session: Session, event: gr.EventData, request: gr.Request) -> Updates:
        return within(session, lambda view: own(request).act(view, event_data(event)))

    def search(session: Session, event: gr.EventData, request: gr.Request) -> Updates:
        return within(session, lambda view: own(request).searched(view, event_data(event)))

    def save(session: Session, name: str, tags: str, comment: str, request: gr.Request) -> Updates:
        return within(session, lambda view: own(request).saved(view, name or "", tags or "", comment or ""))

    def delete(session: Session, request: gr.Request) -> Updates:
        return within(session, own(request).deleted)

    def close(session: Session, request: gr.Request) -> Updates:
        return within(session, own(request).closed)

    tab.select(show, session, history.light, **PRIVATE)
    history.address.input(go, session, outputs, **PRIVATE)
    history.search.select(search, session, outputs, **PRIVATE)
    gr.on([history.rows.select, history.runs.select], act, session, outputs, **PRIVATE)
    gr.on(
        [detail.save.click, detail.name.submit, detail.tags.submit], save, [session, *detail.notes], outputs, **PRIVATE
    )
    detail.delete.click(delete, session, outputs, **PRIVATE)
    detail.close.click(close, session, outputs, **PRIVATE)
    wire_share(services, detail.sharing)
