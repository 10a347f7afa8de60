"""From History back to Compare: the settings of the open comparison fill the fields there, ready to be run again or changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gradio as gr

from storage import StorageError
from ui.admission import check_own
from ui.compare import CompareTab
from ui.form import CUSTOM
from ui.format import displayable
from ui.history.reopen import few, stored_form
from ui.history.tab import History, Session
from ui.result_view import Updates
from ui.told import told
from ui.workplace import Workplace

PRIVATE: Mapping[str, Any] = {"api_visibility": "private", "show_progress": "hidden", "queue": False}


def wire_again(workplace: Workplace, history: History, compare: CompareTab, tabs: gr.Tabs) -> None:
    def load(session: Session, request: gr.Request) -> Updates:
        view, place = session.view, workplace.seen_by(request)
        try:
            store = place.store.through(view.share) if view.share else place.store
            stored = store.load(view.comparison)
            form = stored_form(few(stored, view.runs), workplace.catalog)
            if form.pair == CUSTOM:
                check_own(place)
        except (StorageError, ValueError) as error:
            return {history.detail.saved: displayable(told(error, public=workplace.public))}
        return compare.fill(form) | {tabs: gr.update(selected="compare")}

    history.detail.again.click(load, history.session, [*compare.outputs, tabs, history.detail.saved], **PRIVATE)
