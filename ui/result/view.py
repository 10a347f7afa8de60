"""The components of a result: line, lanes, tables and figures; used by Compare and History
alike; and two runs of one prompt side by side, where another view requests them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import gradio as gr

from display.blocks import Picture
from mars_core.types import Trace
from ui.kit.components import Strip, strip_component
from ui.kit.events import Updates
from ui.kit.glossary import TERMS, help_html
from ui.kit.panel import panel_component, render, static_component
from ui.kit.values import plain
from ui.result.details import FIGURES, PAYS, TABS, Details
from ui.result.panels.planner import planner_html, planner_panel
from ui.result.result import ComparisonResult
from ui.result.sentence import divergence, verdict
from ui.settings.values import FIRST_LANES
from ui.sharing import share_component
from ui.token_view.components import lane_component, token_component
from ui.token_view.view import LaneView, ended_view

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
    there. ``asks``: a row below the texts, where new runs can be requested."""

    def __init__(
        self,
        scope: str,
        strip: Strip,
        lane_views: tuple[LaneView, ...],
        *,
        asks: gr.Row | None = None,
    ) -> None:
        continues = asks is not None
        self.strip = strip_component(strip, scope=scope)
        self.turns = panel_component(elem_id=f"{scope}-turns")
        self.reader = token_component("reader", scope, runs=continues)
        super().__init__(scope, lane_views, FIRST_LANES, continues=continues)
        self.scope, self._empty = scope, lane_views
        self.tabs = dict[str, gr.HTML]()  # by title
        self.counterfactual = static_component(elem_id=f"{scope}-counterfactual")
        self.counterfactual.visible = False
        if asks:
            asks.render()  # type: ignore[no-untyped-call]
        token_component("ribbon", scope)
        # the terms that a first visitor meets above
        terms = "".join(f"<span>{TERMS[key].symbol}{help_html(key)}</span>" for key in HELPED)
        with gr.Row(elem_classes=["mars-foot"]):  # below the texts, which it must not move
            gr.HTML(f'<p class="mars-help-row">{terms}</p>', apply_default_css=False)
            self.sharing = share_component(scope)
        token_component("step", scope)
        hidden = gr.Column(visible=False, elem_classes=["mars-details", "mars-panel"])
        with hidden as self.details, gr.Tabs(elem_id=f"{scope}-details"):
            for title, lead in TABS.items():
                with gr.Tab(title, id=title.lower()):
                    gr.HTML(
                        f'<p class="mars-lead">{lead}</p>', apply_default_css=False
                    )  # a trusted string
                    if title == PAYS:
                        self.tabs[title] = planner_panel(scope)
                    else:
                        name = f"{scope}-{title.lower()}"
                        self.tabs[title] = panel_component(elem_id=name, scope=scope)
        self.below: list[Any] = [self.details, self.counterfactual, *self.tabs.values()]
        self.outputs: list[Any] = [self.strip, self.turns, *self.lanes, *self.below]

    def begin_with(self, result: ComparisonResult) -> None:
        """Set what the page shows when it is opened; to be called while it is built."""
        for component, value in self.display(result).items():
            changed = value if isinstance(value, dict) else {"value": value}
            for name in changed.keys() - {"__type__"}:
                setattr(component, name, changed[name])

    def display(self, result: ComparisonResult) -> Updates:
        """Show a result in full; the lanes that it does not have are empty again."""
        lanes = result.lanes + self._empty[len(result.lanes) :]
        return self.update(result.strip, lanes, result.turns) | self.show(result.details)

    def update(
        self, strip: Strip | None, lanes: tuple[LaneView | None, ...], turns: str | None = None
    ) -> Updates:
        """Line, lanes and HTML of the turns before; None leaves a component as it is."""
        changed: Updates = {self.strip: strip.html()} if strip else {}
        changed |= {} if turns is None else {self.turns: turns}
        return changed | {self.lanes[i]: view.json() for i, view in enumerate(lanes) if view}

    def show(self, details: Details | None) -> Updates:
        """Show the part below the lanes; None hides it."""
        shown = {
            self.counterfactual: gr.update(visible=False),  # it belongs to earlier lanes
            self.details: gr.update(visible=details is not None),
        }
        if details is None:
            return shown
        texts = {tab: details_html(title, details, self.scope) for title, tab in self.tabs.items()}
        return {**shown, **texts}


def card_classes(lane: int, lanes: int) -> list[str]:
    """Return the classes of lane ``lane`` where ``lanes`` are displayed. A card that is not visible
    is there all the same: a component that appears late starts its script without its props."""
    return [
        "mars-card",
        f"mars-card-{lane}",
        f"mars-of-{lanes}",
        *([] if lane < lanes else ["mars-away"]),
    ]


def details_html(tab: str, details: Details, scope: str, *, figures: bool = True) -> str:
    """Return what stands in a tab of the page, and in a section of a report."""
    if tab == PAYS:
        return planner_html(details.runs)
    pictures = [
        (Picture(each.name, each.title, plot, each.width) if plot else None, each.empty)
        for each in FIGURES
        if each.tab == tab and figures
        for plot in [details.plots[each.name]]
    ]
    template = "result/details.html.jinja"
    return render(template, tab=tab, details=details, scope=scope, figures=pictures)


def pair_views(runs: Sequence[Trace], name: str) -> tuple[LaneView, LaneView]:
    """Return two runs, framed where they first differ; the second one says why. ``name`` tells this
    pair from others."""
    left, right = runs
    difference = divergence(left, right)
    note = plain(verdict(runs)) if difference else ""
    views = ended_view(left, f"{name}/0"), ended_view(right, f"{name}/1", note=note)
    position = difference.position if difference else None
    first, second = (replace(view, diverges=position) for view in views)
    return first, second


class RunPair(LaneCards):
    """Hidden until there are views to show."""

    def __init__(self, scope: str) -> None:
        super().__init__(scope, [LaneView("")] * 2, 0)
        self.outputs: list[Any] = [*self.cards, *self.lanes]

    def show(self, views: Sequence[LaneView]) -> Updates:
        """``views``: both, or none."""
        lanes = {lane: view.json() for lane, view in zip(self.lanes, views, strict=False)}
        return self.show_lanes(len(views)) | lanes
