"""The open comparison of History: name, tags and comment to change, deleting it, its downloads, and the result as it was shown live."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import gradio as gr

from evaluation.format import count, displayable
from storage import StoredComparison
from ui.kit.address import Address
from ui.kit.components import REPORT, RUN_FILES, Group, downloads_component, downloads_html, message_strip, text_panel
from ui.kit.labels import settings_line
from ui.public.sharing import READ_ONLY, share_component
from ui.result.result import reopened
from ui.result.token_view import LaneView
from ui.result.view import ResultView, Updates, build_result
from ui.services import Services
from ui.settings.form import CUSTOM, LIST_ONLY, MOST_LANES, Form
from ui.settings.stored import richest, stored_form


@dataclass(frozen=True, slots=True)
class Detail:
    """The components of the open comparison."""

    box: gr.Column
    head: gr.Column
    name: gr.Textbox
    tags: gr.Textbox
    comment: gr.Textbox
    save: gr.Button
    saved: gr.HTML
    again: gr.Button
    delete: gr.Button
    close: gr.Button
    prompt: gr.Textbox
    settings: gr.HTML
    downloads: gr.HTML
    sharing: gr.HTML
    view: ResultView

    @property
    def notes(self) -> list[Any]:
        """The fields that can be changed."""
        return [self.name, self.tags, self.comment]

    @property
    def outputs(self) -> list[Any]:
        head = [self.box, self.head, *self.notes, self.save, self.delete, self.saved]
        shown = [self.prompt, self.settings, self.downloads, self.sharing]
        return [*head, *shown, *self.view.outputs, *self.view.cards]

    def closed(self) -> Updates:
        return {self.box: _shown("mars-details", False)}

    def failed(self, error: str) -> Updates:
        """One sentence in place of the comparison."""
        shown = {self.box: _shown("mars-details", True), self.head: _shown("mars-panel", False)}
        strip = self.view.update(message_strip(error, "failed"), ())
        return shown | strip | self.view.show_lanes(0) | self.view.show(None)

    def opened(self, whole: StoredComparison, wanted: Collection[str] = (), share: str = "") -> Updates:
        """The comparison, from its traces alone. ``wanted``: ids of the runs to show where there are too many; ``share``: token of the
        link through which it is read."""
        stored, view = few(whole, wanted), self.view
        result = reopened(stored)
        shown = view.update(result.strip, result.lanes) | view.show_lanes(len(result.lanes)) | view.show(result.details)
        return self._head(stored, len(whole.runs), share) | shown

    def _head(self, stored: StoredComparison, total: int, share: str) -> Updates:
        link = f"&share={share}" if share else ""
        group = Group("This comparison:", (REPORT, *RUN_FILES), f"?comparison={stored.id}{link}")
        own = not share
        return {
            self.box: _shown("mars-details", True),
            self.head: _shown("mars-panel", True),
            self.name: gr.update(value=displayable(stored.name), interactive=own),
            self.tags: gr.update(value=displayable(", ".join(stored.tags)), interactive=own),
            self.comment: gr.update(value=displayable(stored.comment), interactive=own),
            self.save: gr.update(visible=own),
            self.delete: gr.update(visible=own),
            self.saved: "" if own else READ_ONLY,
            self.prompt: displayable(stored.prompt.text),
            self.settings: _settings(stored, total),
            self.downloads: downloads_html(group),
        }


def few(stored: StoredComparison, wanted: Collection[str]) -> StoredComparison:
    """At most as many runs as the page has lanes: a study compares more. Those that are wanted, by id, else the first ones."""
    if len(stored.runs) <= MOST_LANES:
        return stored
    chosen = [run for run in stored.runs if run.id in wanted] or stored.runs
    return replace(stored, runs=tuple(replace(run, lane=lane) for lane, run in enumerate(chosen[:MOST_LANES])))


def _settings(stored: StoredComparison, total: int) -> str:
    """The settings of the run that drafted, if one did: they say more. ``total``: how many runs the comparison has, shown or not."""
    config, shown = richest(stored), len(stored.runs)
    hidden = f"Shown are {count(shown)} of {count(total)} runs: choose others in the list, then open it again. "
    return f"{hidden if total > shown else ''}{settings_line(config) if config else ''}"


def _shown(name: str, shown: bool) -> Any:
    """A column that is not shown is there all the same: a component that appears late starts its script without its props."""
    return gr.update(elem_classes=[name, *([] if shown else ["mars-away"])])


def read_tags(text: str) -> list[str]:
    """The tags between commas."""
    return [tag for part in text.split(",") if (tag := part.strip())]


def build_detail() -> Detail:
    """The components, hidden until a comparison is opened."""
    with gr.Column(elem_classes=["mars-details", "mars-away"], elem_id="history-open") as box:
        with gr.Column(elem_classes=["mars-panel"]) as head:
            prompt = gr.Textbox(label="Prompt", interactive=False, lines=1, max_lines=6, elem_id="history-prompt")
            settings = text_panel("mars-page")
            with gr.Row(elem_classes=["mars-notes"]):
                name = gr.Textbox(
                    label="Name", placeholder="What you call it", max_length=200, elem_id="history-name", min_width=200
                )
                tags = gr.Textbox(
                    label="Tags, separated by commas",
                    placeholder="paper, greedy",
                    elem_id="history-tags",
                    min_width=200,
                )
            comment = gr.Textbox(
                label="Comment", placeholder="Notes", lines=2, max_lines=8, max_length=10_000, elem_id="history-comment"
            )
            with gr.Row(elem_classes=["mars-tools"]):
                save = gr.Button("Save name, tags and comment", size="sm", elem_id="history-save")
                again = gr.Button("Load into Compare", size="sm", elem_id="history-again")
                close = gr.Button("Close", size="sm", elem_id="history-close")
                delete = gr.Button("Delete", size="sm", variant="stop", elem_id="history-delete")
                saved = text_panel("mars-page")
            downloads = downloads_component("history-open-downloads")
            sharing = share_component("history")
        empty = tuple(LaneView("") for _ in range(MOST_LANES))
        view = build_result("history", message_strip("Choose a comparison from the list."), empty)
    return Detail(
        box, head, name, tags, comment, save, saved, again, delete, close, prompt, settings, downloads, sharing, view
    )


def open_form(services: Services, view: Address) -> Form:
    """The fields of Compare that ask for the open comparison again. Raises StorageError and ValueError."""
    store = services.store.through(view.share) if view.share else services.store
    form = stored_form(few(store.load(view.comparison), view.runs), services.catalog)
    if form.pair == CUSTOM and not services.own_models:
        raise ValueError(LIST_ONLY)
    return form
