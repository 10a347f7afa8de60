"""What the Sweep tab shows of a sweep: chart, table, the pairs of one setting, earlier sweeps. Components and their values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gradio as gr

from evaluation.study.pairs import Sweep
from evaluation.study.points import Cost, points
from ui.figures.tradeoff import COSTS, tradeoff_plot
from ui.kit.assets import asset
from ui.kit.components import Group, Strip, downloads_component, downloads_html, message_strip, strip_component
from ui.kit.figure import figure_component, figure_json
from ui.kit.panel import panel_component
from ui.public.sharing import share_component
from ui.tabs.study.studies import list_component, study_panel
from ui.tabs.study.sweep_panels import pairs_html, settings_html

SCOPE = "sweep"
HINT = "Run the sweep: every prompt is decoded with strict and with the rule, once for each setting."
NO_CHART = "There is nothing to draw yet: no setting has both a speed-up and this cost. A score loss needs prompts with answers."
FIRST = Cost.TV  # of few prompts all texts may differ, which tells nothing apart
FILES = ("sweep.csv", "sweep-comparisons.csv")
Updates = dict[Any, Any]


@dataclass(frozen=True, slots=True)
class SweepView:
    """The components that events change."""

    strip: gr.HTML
    empty: gr.Column
    result: gr.Column
    cost: gr.Radio
    chart: gr.HTML
    table: gr.HTML
    pairs: gr.HTML
    downloads: gr.HTML
    sharing: gr.HTML
    earlier: gr.HTML

    @property
    def outputs(self) -> list[Any]:
        return [self.strip, self.empty, self.result, self.chart, self.table, self.pairs, self.downloads, self.sharing]

    def say(self, strip: Strip) -> Updates:
        return {self.strip: strip.html()}

    def show(self, sweep: Sweep, cost: Cost, *, chart: bool = True, share: str = "") -> Updates:
        """Table and chart of a sweep; without ``chart`` that stays as it was. ``share``: token of the link it is read through."""
        drawn = {self.chart: chart_json(sweep, cost)} if chart else {}
        visible = {self.empty: gr.update(visible=False), self.result: gr.update(visible=True)}
        query = f"?sweep={sweep.id}{f'&share={share}' if share else ''}"
        downloads = downloads_html(Group("This sweep:", FILES, query))
        return visible | {self.table: settings_html(sweep, cost), self.downloads: downloads} | drawn


def build_view() -> SweepView:
    """The components below the fields."""
    strip = strip_component(message_strip(HINT), scope=SCOPE)
    with gr.Column(elem_classes=["mars-panel"]) as empty:
        gr.HTML(asset("sweep_empty.html"), apply_default_css=False)
    # "hidden", not False: Gradio loses the properties of a component that is updated before it was ever mounted
    with gr.Column(visible="hidden", elem_classes=["mars-details", "mars-sweep-result"]) as result:
        with gr.Column(elem_classes=["mars-panel"]):
            choices = [(title, cost.value) for cost, title in COSTS.items()]
            cost = gr.Radio(choices, value=FIRST.value, label="Speed-up against", elem_id="sweep-cost")
            chart = figure_component(scope=SCOPE, name="tradeoff", label="Trade-off", empty=NO_CHART)
        with gr.Column(elem_classes=["mars-panel"]):
            table = study_panel(settings_html(None, FIRST), "sweep-table", scope=SCOPE)
            downloads = downloads_component("sweep-downloads")
            sharing = share_component(SCOPE)
            chosen = panel_component(pairs_html(None, -1), elem_id="sweep-pairs", name="")
    with gr.Column(elem_classes=["mars-panel"]):
        earlier = list_component("sweep")
    return SweepView(strip, empty, result, cost, chart, table, chosen, downloads, sharing, earlier)


def chart_json(sweep: Sweep, cost: Cost) -> str:
    return figure_json(tradeoff_plot(sweep.plan, points(sweep.plan, sweep.pairs), cost))
