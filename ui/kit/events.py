"""Events of the page: the options that several tabs share, and what a component reported with
one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gradio as gr

Updates = dict[Any, Any]  # component → new value or gr.update
QUEUED: Mapping[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
PRIVATE: Mapping[str, Any] = {**QUEUED, "queue": False}  # not queued: answered while runs compute
# The last of those that come while one is answered is answered next; its data must come through
# ``marsLatest`` of browser.js, as that of panels with ``latest``.
LATEST: Mapping[str, Any] = {**PRIVATE, "trigger_mode": "always_last"}


def event_data(event: gr.EventData) -> Mapping[str, Any]:
    """Return the object that a component sent, or {} if it is not an object. Untrusted: a browser
    can send anything."""
    return event._data if isinstance(event._data, Mapping) else {}
