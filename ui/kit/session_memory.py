"""What gradio remembers of every page that was opened, made small.

For links to a page as it stands gradio keeps, with every session, a description of each component and the value that it last showed:
a megabyte for one call of the API, more for an open page, and for as long as the server runs. This page has links of its own
(``ui.kit.address``), and what a visitor wrote need not stay in memory.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gradio as gr
from gradio.state_holder import SessionState, StateHolder

MOST_SESSIONS = 2_000  # then those unused for longest go, with what they had selected


class _Session(SessionState):
    """The values of ``gr.State`` and the components that were changed; no descriptions."""

    def __init__(self, blocks: gr.Blocks) -> None:
        nothing: Any = SimpleNamespace(default_config=blocks.default_config, blocks=())  # to describe
        super().__init__(nothing)

    def __setitem__(self, key: int, value: Any) -> None:
        super().__setitem__(key, value)
        self.config_values.clear()

    def _update_config(self, key: int) -> None:
        pass

    def _update_value_in_config(self, key: int, value: Any) -> None:
        pass


class _Sessions(StateHolder):
    def __getitem__(self, session_id: str) -> SessionState:
        if session_id not in self.session_data:
            self.session_data[session_id] = _Session(self.blocks)
        return super().__getitem__(session_id)


def remember_little(page: gr.Blocks) -> None:
    """For a page that was just launched and has no session yet."""
    page.state_session_capacity = MOST_SESSIONS
    sessions: StateHolder = _Sessions()  # type: ignore[no-untyped-call]
    sessions.set_blocks(page)
    page.app.state_holder = sessions
