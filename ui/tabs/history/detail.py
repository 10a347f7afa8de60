"""The open comparison of History: name, tags and comment to change, deleting it, its downloads, and
the result as it was displayed live."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import gradio as gr

from display.format import count
from storage import StoredComparison
from ui.kit.components import REPORT, RUN_FILES, downloads_html, message_strip
from ui.kit.events import Updates
from ui.kit.labels import settings_line
from ui.kit.panel import panel_component, render
from ui.result.result import ended_result
from ui.result.view import ResultView
from ui.settings.values import MOST_LANES, as_text, few, richest
from ui.sharing import READ_ONLY
from ui.token_view.view import LaneView

TEMPLATE = "tabs/history/detail.html.jinja"


class Notes(NamedTuple):
    """The fields that can be changed, as texts, and of which comparison. ``share``: token of the
    link through which it is read: then nothing can be changed."""

    comparison: str
    share: str
    name: str
    tags: str
    comment: str

    def html(self, message: str = "") -> str:
        link = f"&share={self.share}" if self.share else ""
        query = f"?comparison={self.comparison}{link}"
        group = "This comparison:", (REPORT, *RUN_FILES), query
        message = READ_ONLY if self.share else message
        downloads = downloads_html(group)
        return render(TEMPLATE, part="foot", notes=self, downloads=downloads, message=message)


def entered_notes(comparison: str, share: str, data: Mapping[str, Any]) -> Notes:
    """Return those of the form, untrusted."""
    return Notes(comparison, share, *(as_text(data.get(name)) for name in Notes._fields[2:]))


class Detail:
    def __init__(self) -> None:
        with gr.Column(
            elem_classes=["mars-details", "mars-away"], elem_id="history-open"
        ) as self.box:
            self.head = panel_component(elem_id="history-head")
            empty = tuple(LaneView("") for _ in range(MOST_LANES))
            strip = message_strip("Choose a comparison from the list.")
            self.view = ResultView("history", strip, empty)
            self.foot = panel_component(elem_id="history-foot")
        self.sharing = self.view.sharing
        panels = [self.box, self.head, self.foot, self.sharing]
        self.outputs: list[Any] = [*panels, *self.view.outputs, *self.view.cards]

    def closed(self) -> Updates:
        return self._box("mars-away")

    def failed(self, error: str) -> Updates:
        strip = self.view.update(message_strip(error, "failed"), (), "")
        updates = self._box() | {self.head: "", self.foot: ""}
        return updates | strip | self.view.show_lanes(0) | self.view.show(None)

    def opened(
        self, stored_comparison: StoredComparison, wanted: Collection[str] = (), share: str = ""
    ) -> Updates:
        """Open the comparison from its traces alone. ``wanted``: ids of the runs to show where
        there are too many; ``share``: token of the link through which it is read."""
        turn, view = stored_comparison.at(0, wanted), self.view
        stored = few(turn, wanted)
        first = stored.turns[0]
        result, settings = ended_result(stored), _settings(stored, len(turn.runs))
        about = stored_comparison
        notes = Notes(about.id, share, about.name, ", ".join(about.tags), about.comment)
        return {
            **self._box(),
            self.head: render(TEMPLATE, part="head", prompt=first.prompt.text, settings=settings),
            self.foot: notes.html(),
            **view.display(result),
            **view.show_lanes(len(result.lanes)),
        }

    def _box(self, *more: str) -> Updates:
        """Build a column, which if it is not visible is there all the same: a component that
        appears late starts its script without its props."""
        return {self.box: gr.update(elem_classes=["mars-details", *more])}


def _settings(stored: StoredComparison, total: int) -> str:
    """Return the settings of the run that drafted, if one did: they say more. ``total``: how many
    runs the comparison has, visible or not."""
    config, visible = richest(stored), len(stored.runs)
    hidden = f"{count(visible)} of {count(total)} runs are visible: choose others in the list, then open it again. "
    return f"{hidden if total > visible else ''}{settings_line(config) if config else ''}"
