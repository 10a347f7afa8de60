"""Events of the page: the options that several tabs share, and what a component reported with one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gradio as gr

QUEUED: Mapping[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
PRIVATE: Mapping[str, Any] = {**QUEUED, "queue": False}  # answered at once, beside whatever is computed


def event_data(event: gr.EventData) -> Mapping[str, Any]:
    """The object that was reported; an empty one where it is none. Anything can come: a browser sends what it likes."""
    return event._data if isinstance(event._data, Mapping) else {}
