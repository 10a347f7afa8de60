"""The components of a result: line, lanes, table and figures; used by Compare and History alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import gradio as gr

from ui.components import EMPTY_TABLE, Strip, strip_component, table_component, table_json
from ui.lanes import LANE_NAMES, LEAST_LANES
from ui.palette import OUTCOME_STYLES
from ui.result import Details
from ui.shift_panel import ShiftPanel, build_shift_panel
from ui.token_view import LaneView, lane_component
from ui.tree_panel import TreePanel, build_tree_panel, wire_tokens

Updates = dict[Any, Any]  # component → new value or gr.update


@dataclass(frozen=True, slots=True)
class ResultView:
    """The components, and how values become updates of them."""

    strip: gr.HTML
    cards: tuple[gr.Column, ...]
    lanes: tuple[gr.HTML, ...]
    details: gr.Column
    numbers: gr.Column
    table: gr.HTML
    charts: tuple[gr.Plot, ...]
    acceptance_box: gr.Column
    acceptance: gr.Plot
    shift: ShiftPanel
    tree: TreePanel

    @property
    def outputs(self) -> list[Any]:
        boxes = [self.details, self.numbers, self.table, self.acceptance_box, self.acceptance]
        return [self.strip, *self.lanes, *boxes, *self.charts, *self.shift.outputs, *self.tree.outputs]

    def update(self, strip: Strip | None, lanes: tuple[LaneView | None, ...]) -> Updates:
        """Line and lanes; None leaves a component as it is."""
        changed: Updates = {self.strip: strip.json()} if strip else {}
        return changed | {self.lanes[i]: view.json() for i, view in enumerate(lanes) if view}

    def show_lanes(self, count: int) -> Updates:
        """The cards of the first ``count`` lanes."""
        return {
            card: gr.update(elem_classes=card_classes(lane, shown=lane < count)) for lane, card in enumerate(self.cards)
        }

    def show(self, details: Details | None) -> Updates:
        """The part below the lanes; None hides it."""
        if details is None:
            return {self.details: gr.update(visible=False)} | self.tree.show(None)
        margins = zip_longest(self.charts, details.margins)
        return {
            self.details: gr.update(visible=True),
            self.numbers: gr.update(visible=details.table is not None),
            self.table: table_json(details.table or EMPTY_TABLE),
            self.acceptance_box: gr.update(visible=details.acceptance is not None),
            self.acceptance: details.acceptance,
            **{chart: gr.update(value=figure, visible=figure is not None) for chart, figure in margins},
            **self.shift.show(details.shift),
            **self.tree.show(details.traces),
        }


def card_classes(lane: int, *, shown: bool) -> list[str]:
    """A card that is not shown is there all the same: a component that appears late starts its script without its props."""
    return ["mars-card", f"mars-card-{lane}", *([] if shown else ["mars-away"])]


def build_result(
    scope: str,
    strip: Strip,
    lane_views: tuple[LaneView, ...],
    *,
    head: Callable[[int], None] | None = None,
    tools: Callable[[], None] | None = None,
) -> ResultView:
    """The components of one result, laid out; ``head`` fills the head of each lane's card, ``tools`` the row above the lanes."""
    line = strip_component(strip, scope=scope)
    if tools:
        tools()
    cards, lanes = [], []
    with gr.Row(equal_height=False, elem_classes=["mars-lanes"]):
        for index, view in enumerate(lane_views):
            with gr.Column(elem_classes=card_classes(index, shown=index < LEAST_LANES), min_width=300) as card:
                if head:
                    head(index)
                lanes.append(lane_component(view, scope=scope, lane=index))
            cards.append(card)
    gr.HTML(legend_html(), apply_default_css=False, elem_classes=["mars-legend-block"])
    with gr.Column(visible=False, elem_classes=["mars-details"]) as details:
        numbers, table, box, acceptance = _numbers(scope)
        tree = build_tree_panel(scope, _heading("Draft tree", _TREE))
        shift = build_shift_panel(scope, _heading("Shift", _SHIFT))
        charts = _margins(len(lane_views))
    wire_tokens(tree, tuple(lanes))
    return ResultView(line, tuple(cards), tuple(lanes), details, numbers, table, charts, box, acceptance, shift, tree)


def _numbers(scope: str) -> tuple[gr.Column, gr.HTML, gr.Column, gr.Plot]:
    with gr.Row(elem_classes=["mars-pair"]):
        with gr.Column(elem_classes=["mars-panel"], min_width=300) as numbers:
            gr.HTML(_heading("In numbers", "Every run against the left one."), apply_default_css=False)
            table = table_component(scope=scope)
        with gr.Column(elem_classes=["mars-panel"], min_width=300) as box:
            gr.HTML(_heading("Kept drafts", _KEPT), apply_default_css=False)
            acceptance = _plot("Share of steps that kept a token at each depth of the draft")
    return numbers, table, box, acceptance


def _margins(lanes: int) -> tuple[gr.Plot, ...]:
    with gr.Column(elem_classes=["mars-panel"]):
        gr.HTML(_heading("Margins", _MARGINS), apply_default_css=False)
        with gr.Row(elem_classes=["mars-maps"]):
            return tuple(_plot(f"Margin of every token, {name.lower()} run") for name in LANE_NAMES[:lanes])


_KEPT = "In how many of the steps that drafted that deep a token was kept there."
_TREE = "Everything that one step drafted, and what became of it. A click on a token above chooses its step."
_SHIFT = (
    "How far the law of the emitted text is from the target’s own: total variation (TV) and Kullback–Leibler divergence (KL, in "
    "nats) at every position, and what the target thinks of the text that was written."
)
_MARGINS = (
    "One cell a token, in rows of 32, all runs on one scale: violet where the target is sure, orange where its two best tokens "
    "nearly tie. The colours part at θ, above which MARS may forgive. The frame is the first difference from the left run."
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
