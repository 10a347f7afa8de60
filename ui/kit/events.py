"""Options of gradio events that several tabs share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

QUEUED: Mapping[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
PRIVATE: Mapping[str, Any] = {**QUEUED, "queue": False}  # answered at once, beside whatever is computed
