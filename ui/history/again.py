"""From History back to Compare: the settings of the open comparison fill the fields there, ready to be run again or changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gradio as gr

from storage import StorageError
from ui.compare import CompareTab
from ui.format import displayable
from ui.history.reopen import few, stored_form
from ui.history.tab import History, Session
from ui.result_view import Updates
from ui.workplace import Workplace

PRIVATE: Mapping[str, Any] = {"api_visibility": "private", "show_progress": "hidden", "queue": False}


def wire_again(workplace: Workplace, history: History, compare: CompareTab, tabs: gr.Tabs) -> None:
    def load(session: Session) -> Updates:
        try:
            stored = workplace.store.load(session.view.comparison)
            form = stored_form(few(stored, session.view.runs), workplace.catalog)
        except (StorageError, ValueError) as error:
            return {history.detail.saved: displayable(str(error))}
        return compare.fill(form) | {tabs: gr.update(selected="compare")}

    history.detail.again.click(load, history.session, [*compare.outputs, tabs, history.detail.saved], **PRIVATE)
