"""The components of a result: line, lanes, tables and figures; used by Compare and History alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gradio as gr

from ui.kit.components import (
    EMPTY_TABLE,
    Strip,
    check_component,
    check_html,
    strip_component,
    table_component,
    table_html,
    text_panel,
)
from ui.kit.figure import figure_component, figure_json
from ui.kit.palette import OUTCOME_STYLES
from ui.result.details import FIGURES, TABS, Details, Figure
from ui.result.token_view import GIVEN_MEANING, LaneView, lane_component, reader_component
from ui.result.tree_panel import TreePanel, build_tree_panel, wire_tokens
from ui.settings.form import FIRST_LANES

Updates = dict[Any, Any]  # component → new value or gr.update


@dataclass(frozen=True, slots=True)
class DetailsView:
    """What stands below the lanes, in inner tabs, and how details become updates of it."""

    box: gr.Column
    table: gr.HTML
    check: gr.HTML
    shift: gr.HTML
    shift_note: gr.HTML
    figures: dict[str, gr.HTML]
    tree: TreePanel

    @property
    def outputs(self) -> list[Any]:
        fixed = [self.box, self.table, self.check, self.shift, self.shift_note]
        return [*fixed, *self.figures.values(), *self.tree.outputs]

    def show(self, details: Details | None) -> Updates:
        """None hides all of it."""
        if details is None:
            return {self.box: gr.update(visible=False)} | self.tree.show(None)
        return {
            self.box: gr.update(visible=True),
            self.table: table_html(details.table or EMPTY_TABLE),
            self.check: check_html(details.check),
            self.shift: table_html(details.shift),
            self.shift_note: details.shift_note,
            **{component: figure_json(details.plots[name]) for name, component in self.figures.items()},
            **self.tree.show(details.traces),
        }


def build_details(scope: str) -> DetailsView:
    """The components, hidden; the tabs' contents are there from the beginning, for a script that starts late misses its value."""
    built: dict[str, gr.HTML] = {}
    parts: dict[str, Any] = {}

    def figures(of: list[Figure]) -> None:
        for figure in of:
            built[figure.name] = figure_component(
                scope=scope, name=figure.name, label=figure.title, empty=figure.empty, wide=figure.wide
            )

    with (
        gr.Column(visible=False, elem_classes=["mars-details", "mars-panel"]) as box,
        gr.Tabs(elem_id=f"{scope}-details"),
    ):
        for title, lead in TABS.items():
            of = [figure for figure in FIGURES if figure.tab == title]
            with gr.Tab(title, id=title.lower(), render_children=True):
                gr.HTML(f'<p class="mars-lead">{lead}</p>', apply_default_css=False)  # a text of ours
                if title == "Numbers":
                    parts["table"] = table_component(scope=scope)
                elif title == "Shift":
                    with gr.Column(elem_id=f"{scope}-shift"):
                        parts["check"] = check_component()
                        with gr.Row(elem_classes=["mars-pair"]):
                            with gr.Column(min_width=280):
                                parts["shift"] = table_component(scope=f"{scope}-shift")
                                parts["shift_note"] = text_panel("mars-footnote")
                            figures(of[:1])
                        figures(of[1:])
                elif title == "Tree":
                    parts["tree"] = build_tree_panel(scope)
                elif title == "Margins":
                    with gr.Row(elem_classes=["mars-maps"]):
                        figures(of)
                else:
                    figures(of)
    return DetailsView(box=box, figures=built, **parts)


@dataclass(frozen=True, slots=True)
class ResultView:
    """The components, and how values become updates of them."""

    strip: gr.HTML
    reader: gr.HTML
    cards: tuple[gr.Column, ...]
    lanes: tuple[gr.HTML, ...]
    details: DetailsView

    @property
    def outputs(self) -> list[Any]:
        return [self.strip, *self.lanes, *self.details.outputs]

    def update(self, strip: Strip | None, lanes: tuple[LaneView | None, ...]) -> Updates:
        """Line and lanes; None leaves a component as it is."""
        changed: Updates = {self.strip: strip.html()} if strip else {}
        return changed | {self.lanes[i]: view.json() for i, view in enumerate(lanes) if view}

    def show_lanes(self, count: int) -> Updates:
        """The cards of the first ``count`` lanes."""
        return {
            card: gr.update(elem_classes=card_classes(lane, shown=lane < count)) for lane, card in enumerate(self.cards)
        }

    def show(self, details: Details | None) -> Updates:
        """The part below the lanes; None hides it."""
        return self.details.show(details)


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
    continues: bool = False,
) -> ResultView:
    """The components of one result, laid out; ``head`` fills the head of each lane's card, ``tools`` the row above the lanes.
    ``continues``: new runs can be asked for from within the result."""
    line = strip_component(strip, scope=scope)
    if tools:
        tools()
    reader = reader_component(scope=scope, runs=continues)
    cards, lanes = [], []
    with gr.Row(equal_height=False, elem_classes=["mars-lanes"]):
        for index, view in enumerate(lane_views):
            with gr.Column(elem_classes=card_classes(index, shown=index < FIRST_LANES), min_width=300) as card:
                if head:
                    head(index)
                lanes.append(lane_component(view, scope=scope, lane=index, continues=continues))
            cards.append(card)
    gr.HTML(legend_html(), apply_default_css=False, elem_classes=["mars-legend-block"])
    details = build_details(scope)
    wire_tokens(details.tree, tuple(lanes))
    return ResultView(line, reader, tuple(cards), tuple(lanes), details)


def legend_html() -> str:
    """How to read the token view; constant text of ours."""
    marks = "".join(
        f'<li><span class="tok w {outcome}">{outcome}</span> {style.meaning}</li>'
        for outcome, style in OUTCOME_STYLES.items()
    )
    given = f'<li><span class="tok w given">given</span> {GIVEN_MEANING.removeprefix("given: ")}</li>'
    return f'<ul class="mars-legend" aria-label="How to read the text">{marks}{given}</ul>'
