"""The components of a result: line, two lanes, table and figures; used by Compare and History alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gradio as gr

from ui.components import EMPTY_TABLE, Strip, strip_component, table_component, table_json
from ui.palette import OUTCOME_STYLES
from ui.result import Details
from ui.token_view import LaneView, lane_component

Updates = dict[Any, Any]  # component → new value or gr.update
LANE_NAMES = ("Left", "Right")


@dataclass(frozen=True, slots=True)
class ResultView:
    """The components, and how values become updates of them."""

    strip: gr.HTML
    lanes: tuple[gr.HTML, ...]
    details: gr.Column
    numbers: gr.Column
    table: gr.HTML
    charts: tuple[gr.Plot, ...]
    acceptance_box: gr.Column
    acceptance: gr.Plot

    @property
    def outputs(self) -> list[Any]:
        boxes = [self.details, self.numbers, self.table, self.acceptance_box, self.acceptance]
        return [self.strip, *self.lanes, *boxes, *self.charts]

    def update(self, strip: Strip | None, lanes: tuple[LaneView | None, ...]) -> Updates:
        """Line and lanes; None leaves a component as it is."""
        changed: Updates = {self.strip: strip.json()} if strip else {}
        return changed | {self.lanes[i]: view.json() for i, view in enumerate(lanes) if view}

    def show(self, details: Details | None) -> Updates:
        """The part below the lanes; None hides it."""
        if details is None:
            return {self.details: gr.update(visible=False)}
        margins = zip(self.charts, details.margins, strict=True)
        return {
            self.details: gr.update(visible=True),
            self.numbers: gr.update(visible=details.table is not None),
            self.table: table_json(details.table or EMPTY_TABLE),
            self.acceptance_box: gr.update(visible=details.acceptance is not None),
            self.acceptance: details.acceptance,
            **{chart: gr.update(value=figure, visible=figure is not None) for chart, figure in margins},
        }


def build_result(
    scope: str, strip: Strip, lane_views: tuple[LaneView, ...], head: Callable[[int], None] | None = None
) -> ResultView:
    """The components of one result, laid out; ``head`` fills the head of each lane's card, where it has one."""
    line = strip_component(strip, scope=scope)
    lanes = []
    with gr.Row(equal_height=False, elem_classes=["mars-lanes"]):
        for index, view in enumerate(lane_views):
            with gr.Column(elem_classes=["mars-card", f"mars-card-{index}"], min_width=300):
                if head:
                    head(index)
                lanes.append(lane_component(view, scope=scope, lane=index))
    gr.HTML(legend_html(), apply_default_css=False, elem_classes=["mars-legend-block"])
    with gr.Column(visible=False, elem_classes=["mars-details"]) as details:
        with gr.Row(elem_classes=["mars-pair"]):
            with gr.Column(elem_classes=["mars-panel"], min_width=300) as numbers:
                gr.HTML(_heading("In numbers", "The right run against the left one."), apply_default_css=False)
                table = table_component(scope=scope)
            with gr.Column(elem_classes=["mars-panel"], min_width=300) as acceptance_box:
                gr.HTML(
                    _heading("Kept drafts", "How many drafted tokens were kept at each place of the draft."),
                    apply_default_css=False,
                )
                acceptance = _plot("Share of drafted tokens kept at each draft position")
        with gr.Column(elem_classes=["mars-panel"]):
            gr.HTML(_heading("Margins", _MARGINS), apply_default_css=False)
            with gr.Row(elem_classes=["mars-pair"]):
                charts = tuple(
                    _plot(f"Margin of every token, {name.lower()} run") for name in LANE_NAMES[: len(lane_views)]
                )
    return ResultView(line, tuple(lanes), details, numbers, table, charts, acceptance_box, acceptance)


_MARGINS = (
    "One cell a token, in rows of 32, both runs on one scale: violet where the target is sure, orange where its two best tokens "
    "nearly tie. The colours part at θ; only orange cells can be forgiven. The frame is the first difference."
)


def _heading(title: str, text: str) -> str:
    return f'<div class="mars-heading"><h2>{title}</h2><p>{text}</p></div>'


def _plot(label: str) -> gr.Plot:
    return gr.Plot(label=label, show_label=False, container=False, min_width=280)


def legend_html() -> str:
    """How to read the token view; constant text of ours."""
    marks = "".join(
        f'<li><span class="tok w {outcome}">{outcome}</span> {style.meaning}</li>'
        for outcome, style in OUTCOME_STYLES.items()
    )
    return f'<ul class="mars-legend" aria-label="How to read the text">{marks}</ul>'
