"""From History back to Compare: the settings of the open comparison fill the fields there, ready to be run again or changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gradio as gr

from storage import StorageError
from ui.jobs.admission import check_own
from ui.kit.format import displayable
from ui.kit.told import told
from ui.result.view import Updates
from ui.services import Services
from ui.settings.form import CUSTOM
from ui.tabs.compare.tab import CompareTab
from ui.tabs.history.reopen import few, stored_form
from ui.tabs.history.tab import History, Session

PRIVATE: Mapping[str, Any] = {"api_visibility": "private", "show_progress": "hidden", "queue": False}


def wire_again(services: Services, history: History, compare: CompareTab, tabs: gr.Tabs) -> None:
    def load(session: Session, request: gr.Request) -> Updates:
        view, place = session.view, services.seen_by(request)
        try:
            store = place.store.through(view.share) if view.share else place.store
            stored = store.load(view.comparison)
            form = stored_form(few(stored, view.runs), services.catalog)
            if form.pair == CUSTOM:
                check_own(place)
        except (StorageError, ValueError) as error:
            return {history.detail.saved: displayable(told(error, public=services.public))}
        return compare.fill(form) | {tabs: gr.update(selected="compare")}

    history.detail.again.click(load, history.session, [*compare.outputs, tabs, history.detail.saved], **PRIVATE)
