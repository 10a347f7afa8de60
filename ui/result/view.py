"""The components of a result: line, lanes, tables and figures; used by Compare and History
alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gradio as gr

from display.figure import figure_json
from ui.kit.components import Strip, check_html, strip_component, table_html, text_panel
from ui.kit.events import Updates
from ui.kit.glossary import TERMS, help_html
from ui.kit.panel import static_component
from ui.result.details import FIGURES, TABS, DetailFigure, Details
from ui.result.figure import figure_component
from ui.result.panels.planner import PlannerPanel
from ui.result.panels.tree import TreePanel
from ui.result.result import ComparisonResult
from ui.result.stored_runs import StoredRuns
from ui.settings.form import FIRST_LANES
from ui.sharing import share_component
from ui.token_view.view import LaneView, lane_component, reader_component

HELPED = ("rule", "tau", "r", "theta", "tv", "k")


class LaneCards:
    """Token views side by side, of which the first ``visible`` are displayed. ``continues``: new runs
    can be requested from within them."""

    def __init__(
        self, scope: str, views: Sequence[LaneView], visible: int, *, continues: bool = False
    ) -> None:
        self.cards: list[gr.Column] = []
        self.lanes: list[gr.HTML] = []
        with gr.Row(equal_height=False, elem_classes=["mars-lanes"]):
            for lane, view in enumerate(views):
                with gr.Column(elem_classes=card_classes(lane, visible), min_width=300) as card:
                    part = lane_component(view, scope=scope, lane=lane, continues=continues)
                    self.lanes.append(part)
                self.cards.append(card)

    def show_lanes(self, count: int) -> Updates:
        return {
            card: gr.update(elem_classes=card_classes(lane, count))
            for lane, card in enumerate(self.cards)
        }


class ResultView(LaneCards):
    """The components of one result, laid out, and how values become updates of them. ``details``:
    what stands below the lanes in tabs, hidden until there is something; ``below``: what changes
    there."""

    def __init__(
        self,
        scope: str,
        strip: Strip,
        lane_views: tuple[LaneView, ...],
        stored: StoredRuns,
        *,
        continues: bool = False,
    ) -> None:
        self.strip = strip_component(strip, scope=scope)
        self.reader = reader_component(scope=scope, runs=continues)
        super().__init__(scope, lane_views, FIRST_LANES, continues=continues)
        self.figures: dict[str, gr.HTML] = {}  # by name
        self.counterfactual = static_component(elem_id=f"{scope}-counterfactual")
        self.counterfactual.visible = False
        # the terms that a first visitor meets above
        terms = "".join(f"<span>{TERMS[key].symbol}{help_html(key)}</span>" for key in HELPED)
        with gr.Row(elem_classes=["mars-foot"]):  # below the texts, which it must not move
            gr.HTML(f'<p class="mars-help-row">{terms}</p>', apply_default_css=False)
            self.sharing = share_component(scope)
        hidden = gr.Column(visible=False, elem_classes=["mars-details", "mars-panel"])
        with hidden as self.details, gr.Tabs(elem_id=f"{scope}-details"):
            for title, lead in TABS.items():
                with gr.Tab(title, id=title.lower()):
                    gr.HTML(
                        f'<p class="mars-lead">{lead}</p>', apply_default_css=False
                    )  # a trusted string
                    self._fill(title, scope, stored)
        fixed = [self.details, self.table, self.check, self.shift, self.shift_note]
        fixed.append(self.counterfactual)
        self.below: list[Any] = [
            *fixed,
            *self.figures.values(),
            self.planner.panel,
            *self.tree.outputs,
        ]
        self.outputs: list[Any] = [self.strip, *self.lanes, *self.below]

    def _fill(self, title: str, scope: str, stored: StoredRuns) -> None:
        of = [figure for figure in FIGURES if figure.tab == title]
        if title == "Numbers":
            self.table = static_component(elem_id=f"{scope}-table")
        elif title == "Shift":
            with gr.Column(elem_id=f"{scope}-shift"):
                self.check = static_component()
                with gr.Row(elem_classes=["mars-pair"]):
                    with gr.Column(min_width=280):
                        self.shift = static_component(elem_id=f"{scope}-shift-table")
                        self.shift_note = text_panel("mars-footnote")
                    self._draw(scope, of[:1])
                self._draw(scope, of[1:])
        elif title == "When does it pay?":
            self.planner = PlannerPanel(scope)
        elif title == "Tree":
            self.tree = TreePanel(scope, self.lanes, stored)
        else:
            self._draw(scope, of)

    def _draw(self, scope: str, figures: Sequence[DetailFigure]) -> None:
        for _, name, title, _, empty, wide in figures:
            self.figures[name] = figure_component(
                scope=scope, name=name, label=title, empty=empty, wide=wide
            )

    def begin_with(self, result: ComparisonResult) -> None:
        """What the page shows when it is opened; to be called while it is built."""
        for component, value in (
            self.update(result.strip, result.lanes) | self.show(result.details)
        ).items():
            changed = value if isinstance(value, dict) else {"value": value}
            for name in changed.keys() - {"__type__"}:
                setattr(component, name, changed[name])

    def update(self, strip: Strip | None, lanes: tuple[LaneView | None, ...]) -> Updates:
        """Line and lanes; None leaves a component as it is."""
        changed: Updates = {self.strip: strip.html()} if strip else {}
        return changed | {self.lanes[i]: view.json() for i, view in enumerate(lanes) if view}

    def show(self, details: Details | None, share: str = "") -> Updates:
        """The part below the lanes; None hides it. ``share``: token of the link through which the
        runs are read."""
        closed = {self.counterfactual: gr.update(visible=False)}  # it belongs to earlier lanes
        if details is None:
            return closed | {self.details: gr.update(visible=False)} | self.tree.show({})
        return closed | {
            self.details: gr.update(visible=True),
            self.table: table_html(details.table),
            self.check: check_html(details.check),
            self.shift: table_html(details.shift),
            self.shift_note: details.shift_note,
            **{
                component: figure_json(details.plots[name])
                for name, component in self.figures.items()
            },
            **self.planner.show(details.traces),
            **self.tree.show(details.traces, details.ids, share),
        }


def card_classes(lane: int, lanes: int) -> list[str]:
    """Of lane ``lane`` where ``lanes`` are displayed. A card that is not visible is there all the same: a
    component that appears late starts its script without its props."""
    return [
        "mars-card",
        f"mars-card-{lane}",
        f"mars-of-{lanes}",
        *([] if lane < lanes else ["mars-away"]),
    ]
