"""Events of the page: how they are declared, and what a component reported with one. Anything can come: a browser sends what it likes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gradio as gr

PRIVATE: Mapping[str, Any] = {"api_visibility": "private", "show_progress": "hidden", "queue": False}


def event_data(event: gr.EventData) -> Mapping[str, Any]:
    """The object that was reported; an empty one where it is none."""
    return event._data if isinstance(event._data, Mapping) else {}
