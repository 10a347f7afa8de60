"""The input components of the Compare tab by field of Form, and their values as a Form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gradio as gr

from ui.settings.form import Form
from ui.settings.lanes import Head

TEXTS = frozenset(("prompt", "system", "stop", "own_target", "own_draft", "own_head"))


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of the form; the lanes' heads, of which the first ``count`` are shown."""

    by_name: dict[str, Any]
    heads: tuple[Head, ...]
    count: gr.State

    @property
    def inputs(self) -> list[Any]:
        return [self.count, *self.by_name.values(), *(field for head in self.heads for field in head.inputs)]

    def form(self, values: tuple[Any, ...]) -> Form:
        """The fields' values, in the order of ``inputs``."""
        given = iter(values)
        count = int(next(given))
        fields: dict[str, Any] = {name: _text(next(given)) if name in TEXTS else next(given) for name in self.by_name}
        lanes = tuple(head.read(given) for head in self.heads)
        return Form(lanes=lanes[:count], **fields)


def _text(value: Any) -> str:
    """An empty text box gives None."""
    return "" if value is None else str(value)
