"""What a component of the page reported with an event. Anything can come: a browser sends what it likes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gradio as gr


def said_of(event: gr.EventData) -> Mapping[str, Any]:
    """The object that was reported; an empty one where it is none."""
    return event._data if isinstance(event._data, Mapping) else {}
