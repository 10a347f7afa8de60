"""The open comparison of History: name, tags and comment to change, deleting it, its downloads, and
the result as it was shown live."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import gradio as gr

from evaluation.format import count, displayable
from storage import StoredComparison
from ui.kit.components import (
    REPORT,
    RUN_FILES,
    downloads_component,
    downloads_html,
    message_strip,
    text_panel,
)
from ui.kit.events import Updates
from ui.kit.labels import settings_line
from ui.result.result import reopened
from ui.result.stored_runs import StoredRuns
from ui.result.view import ResultView
from ui.settings.form import MOST_LANES
from ui.settings.stored import few, richest
from ui.sharing import READ_ONLY
from ui.token_view.view import LaneView


class Detail:
    def __init__(self, stored: StoredRuns) -> None:
        with gr.Column(
            elem_classes=["mars-details", "mars-away"], elem_id="history-open"
        ) as self.box:
            with gr.Column(elem_classes=["mars-panel"]) as self.head:
                self.prompt = gr.Textbox(
                    label="Prompt",
                    interactive=False,
                    lines=1,
                    max_lines=6,
                    elem_id="history-prompt",
                )
                self.settings = text_panel("mars-page")
                with gr.Row(elem_classes=["mars-tools"]):
                    self.again = gr.Button("Load into Compare", size="sm", elem_id="history-again")
                    self.close = gr.Button("Close", size="sm", elem_id="history-close")
            empty = tuple(LaneView("") for _ in range(MOST_LANES))
            self.view = ResultView(
                "history", message_strip("Choose a comparison from the list."), empty, stored
            )
            with gr.Column(elem_classes=["mars-panel"]) as self.foot:
                with gr.Row(elem_classes=["mars-notes"]):
                    self.name = _note("Name", "What you call it", "history-name", max_length=200)
                    self.tags = _note("Tags, separated by commas", "paper, greedy", "history-tags")
                self.comment = _note(
                    "Comment", "Notes", "history-comment", lines=2, max_lines=8, max_length=10_000
                )
                with gr.Row(elem_classes=["mars-tools"]):
                    self.save = gr.Button(
                        "Save name, tags and comment", size="sm", elem_id="history-save"
                    )
                    self.delete = gr.Button(
                        "Delete", size="sm", variant="stop", elem_id="history-delete"
                    )
                    self.saved = text_panel("mars-page")
                self.downloads = downloads_component("history-open-downloads")
        self.sharing = self.view.sharing
        self.notes: list[Any] = [
            self.name,
            self.tags,
            self.comment,
        ]  # the fields that can be changed
        head = [self.box, self.head, self.foot, *self.notes, self.save, self.delete, self.saved]
        visible = [self.prompt, self.settings, self.downloads, self.sharing]
        self.outputs: list[Any] = [*head, *visible, *self.view.outputs, *self.view.cards]

    def closed(self) -> Updates:
        return {self.box: _column("mars-details", False)}

    def failed(self, error: str) -> Updates:
        visible = {self.box: _column("mars-details", True)}
        visible |= {part: _column("mars-panel", False) for part in (self.head, self.foot)}
        strip = self.view.update(message_strip(error, "failed"), ())
        return visible | strip | self.view.show_lanes(0) | self.view.show(None)

    def opened(
        self, stored_comparison: StoredComparison, wanted: Collection[str] = (), share: str = ""
    ) -> Updates:
        """The comparison, from its traces alone. ``wanted``: ids of the runs to show where there
        are too many; ``share``: token of the link through which it is read."""
        stored, view = few(stored_comparison, wanted), self.view
        result = reopened(stored)
        visible = view.update(result.strip, result.lanes) | view.show_lanes(len(result.lanes))
        return (
            self._head(stored, len(stored_comparison.runs), share)
            | visible
            | view.show(result.details, share)
        )

    def _head(self, stored: StoredComparison, total: int, share: str) -> Updates:
        link = f"&share={share}" if share else ""
        group = "This comparison:", (REPORT, *RUN_FILES), f"?comparison={stored.id}{link}"
        editable = not share
        return {
            self.box: _column("mars-details", True),
            self.head: _column("mars-panel", True),
            self.foot: _column("mars-panel", True),
            self.name: gr.update(value=displayable(stored.name), interactive=editable),
            self.tags: gr.update(value=displayable(", ".join(stored.tags)), interactive=editable),
            self.comment: gr.update(value=displayable(stored.comment), interactive=editable),
            self.save: gr.update(visible=editable),
            self.delete: gr.update(visible=editable),
            self.saved: "" if editable else READ_ONLY,
            self.prompt: displayable(stored.prompt.text),
            self.settings: _settings(stored, total),
            self.downloads: downloads_html(group),
        }


def _settings(stored: StoredComparison, total: int) -> str:
    """The settings of the run that drafted, if one did: they say more. ``total``: how many runs the
    comparison has, shown or not."""
    config, visible = richest(stored), len(stored.runs)
    hidden = f"Shown are {count(visible)} of {count(total)} runs: choose others in the list, then open it again. "
    return f"{hidden if total > visible else ''}{settings_line(config) if config else ''}"


def _column(name: str, visible: bool) -> Any:
    """A column that is not shown is there all the same: a component that appears late starts its
    script without its props."""
    return gr.update(elem_classes=[name, *([] if visible else ["mars-away"])])


def read_tags(text: str) -> list[str]:
    return [tag for part in text.split(",") if (tag := part.strip())]


def _note(label: str, placeholder: str, elem_id: str, **more: Any) -> gr.Textbox:
    return gr.Textbox(label=label, placeholder=placeholder, elem_id=elem_id, min_width=200, **more)
