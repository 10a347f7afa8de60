"""The field below the texts in which a follow-up is asked, with what the lanes go on from."""

from __future__ import annotations

from typing import Any

import gradio as gr

from evaluation.conversation import HISTORIES
from ui.kit.events import Updates

CLASSES = ("mars-panel", "mars-prompt-panel-line")
AWAY = "mars-away"


class FollowUp:
    """Hidden until there is a comparison that can go on."""

    def __init__(self) -> None:
        row = gr.Row(elem_id="follow-up", elem_classes=[*CLASSES, AWAY], render=False)
        with row as self.row:
            self.question = gr.Textbox(
                label="Follow-up",
                placeholder="Ask a follow-up",
                lines=1,
                max_lines=3,
                elem_id="follow-up-question",
                scale=5,
                min_width=260,
            )
            self.history = gr.Dropdown(
                [(title, name) for name, title in HISTORIES.items()],
                value="own",
                label="The conversation so far",
                elem_id="follow-up-history",
                scale=3,
                min_width=260,
            )
            self.ask = gr.Button("Ask", elem_id="follow-up-ask", min_width=100, scale=0)
        self.outputs: list[Any] = [self.row, self.question]

    def show(self, offered: bool, refused: str = "") -> Updates:
        """``refused``: why the models that are displayed take no follow-up."""
        classes = [*CLASSES, *([] if offered else [AWAY])]
        return {
            self.row: gr.update(elem_classes=classes),
            self.question: gr.update(info=refused or None, interactive=not refused),
        }
