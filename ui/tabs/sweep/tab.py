"""The Sweep tab: a grid of settings on some prompts, each as a pair with strict. Wires components
to the plain handlers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import gradio as gr

from evaluation.study.pairs import Sweep, load_sweep
from evaluation.study.points import Cost, points
from storage import Shared
from ui.figures.tradeoff import COSTS, tradeoff_plot
from ui.jobs.services import Services
from ui.kit.components import (
    downloads_component,
    downloads_html,
    message_strip,
    strip_component,
    text_panel,
)
from ui.kit.events import PRIVATE, event_data
from ui.kit.figure import figure_component, figure_json
from ui.kit.panel import panel_component
from ui.settings.panel import SettingsPanel
from ui.sharing import READ_ONLY, reading, share_component
from ui.tabs.study.studies import list_component, study_panel, sweeps_html
from ui.tabs.study.tab import FAILURES, RESULT, StoredTab, Updates
from ui.tabs.sweep.form import describe, examples, read_sweep, thresholds, write_cases
from ui.tabs.sweep.panels import pairs_html, settings_html
from ui.tabs.sweep.run import SweepFrame, closing_strip, run

CHART_S = 3.0  # between two drawings of the chart while a sweep runs
SCOPE = "sweep"
HINT = (
    "Run the sweep: every prompt is decoded with strict and with the rule, once for each setting."
)
NO_CHART = "There is nothing to draw yet: no setting has both a speed-up and this cost. A score loss needs prompts with answers."
FIRST = Cost.TV  # of few prompts all texts may differ, which tells nothing apart
FILES = ("sweep.csv", "sweep-comparisons.csv")
NO_PAIRS = pairs_html(None, -1)


def chart_json(sweep: Sweep, cost: Cost) -> str:
    return figure_json(tradeoff_plot(sweep.plan, points(sweep.plan, sweep.pairs), cost))


class SweepTab(StoredTab):
    def __init__(self, services: Services) -> None:
        super().__init__(services, SCOPE, Shared.SWEEP, sweeps_html, read_sweep)
        with gr.Column(elem_classes=["mars-panel", "mars-ask", "mars-sweep-ask"]):
            self.prompts = gr.Textbox(
                write_cases(examples(0)[:4]),
                label="Prompts, one a line",
                lines=5,
                max_lines=16,
                elem_id="sweep-prompts",
                info="Write “prompt => answer” to have the texts scored. For prompts of several lines put a line --- between two.",
                placeholder="2 + 2 = => 4",
            )
            with gr.Row(elem_classes=["mars-tools"]):
                self.examples = gr.Button(
                    "Example problems with answers", size="sm", elem_id="sweep-examples"
                )
            self.panel = SettingsPanel(services, SCOPE, describe, thresholds=thresholds)
            with gr.Row(elem_classes=["mars-ask-line"]):
                self.note = text_panel("mars-page mars-sweep-estimate")
                self.run = gr.Button(
                    "Run the sweep", variant="primary", elem_id="sweep-run", min_width=150, scale=0
                )
                self.stop = gr.Button(
                    "Stop",
                    variant="stop",
                    visible=False,
                    elem_id="sweep-stop",
                    min_width=150,
                    scale=0,
                )
        self.strip = strip_component(message_strip(HINT), scope=SCOPE)
        # not visible=False: Gradio loses the properties of a component that is updated before it
        # was ever mounted
        with gr.Column(elem_classes=[RESULT, "mars-sweep-result", "mars-away"]) as self.result:
            with gr.Column(elem_classes=["mars-panel"]):
                costs = [(title, cost.value) for cost, title in COSTS.items()]
                self.cost = gr.Radio(
                    costs, value=FIRST.value, label="Speed-up against", elem_id="sweep-cost"
                )
                self.chart = figure_component(
                    scope=SCOPE, name="tradeoff", label="Trade-off", empty=NO_CHART
                )
            with gr.Column(elem_classes=["mars-panel"]):
                self.table = study_panel(settings_html(None, FIRST), "sweep-table", scope=SCOPE)
                self.downloads = downloads_component("sweep-downloads")
                self.sharing = share_component(SCOPE)
                self.pairs = panel_component(NO_PAIRS, elem_id="sweep-pairs")
        self.listed = list_component("sweep")
        self.fields = [self.prompts, self.panel.component]
        panels = [self.chart, self.table, self.pairs, self.downloads, self.sharing, self.listed]
        self.outputs = [self.strip, self.result, *panels, *self.shown]

    def wire_all(self, tab: gr.Tab) -> None:
        presses = gr.State(0)
        self.wire(tab, [(self.run, self.sweep, [self.cost, *self.fields])], locked=[self.cost])
        self.cost.input(self.against, [*self.shown, self.cost], self.outputs, **PRIVATE)
        self.table.select(self.choose, self.shown, self.pairs, **PRIVATE)
        self.listed.select(self.open_sweep, self.cost, self.outputs, **PRIVATE)
        self.examples.click(self.more, presses, [self.prompts, presses], **PRIVATE)

    def sweep(self, request: gr.Request, cost: str, *values: Any) -> Iterator[Updates]:
        form = read_sweep(*values)
        yield from self.follow(
            request, lambda place, visitor: self.updates(run(place, form, visitor), _cost(cost))
        )

    def updates(self, frames: Iterator[SweepFrame], cost: Cost) -> Iterator[Updates]:
        """The chart is drawn when something ends and at most every few seconds before: drawing
        takes the browser long."""
        drawn, before = 0.0, ""
        for frame in frames:
            changed = self.say(frame.strip)
            if frame.shown:
                due = frame.strip.state != "running" or time.monotonic() - drawn >= CHART_S
                drawn = time.monotonic() if due else drawn
                changed |= self.show(frame.shown, cost, chart=due)
                changed |= {self.pairs: NO_PAIRS} if frame.shown.id != before else {}
                before = frame.shown.id
            yield changed

    def show(self, sweep: Sweep, cost: Cost, share: str = "", *, chart: bool = True) -> Updates:
        """Table and chart of a sweep; without ``chart`` that stays as it was. ``share``: token of
        the link it is read through."""
        query = f"?sweep={sweep.id}{f'&share={share}' if share else ''}"
        return {
            self.result: gr.update(elem_classes=[RESULT, "mars-sweep-result"]),
            self.table: settings_html(sweep, cost),
            self.downloads: downloads_html(("This sweep:", FILES, query)),
            **({self.chart: chart_json(sweep, cost)} if chart else {}),
            **dict(zip(self.shown, (sweep.id, share), strict=True)),
        }

    def load(self, request: gr.Request, sweep_id: str, token: object) -> tuple[Sweep, str]:
        """A stored sweep, and the token of the link it is read through, if it is. Raises
        StorageError and ValueError."""
        store, share = reading(self.services, request, token, lambda own: own.study(sweep_id))
        return load_sweep(store, sweep_id), share

    def open_sweep(self, cost: str, event: gr.EventData, request: gr.Request) -> Updates:
        """A stored sweep as it was shown when it ended; for the list and for the page's address."""
        data = event_data(event)
        try:
            sweep, share = self.load(request, str(data.get("id", "")), data.get("share"))
        except FAILURES as error:
            changed, sweep_id, share = self.failed(error) | dict.fromkeys(self.shown, ""), "", ""
        else:
            strip, sweep_id = closing_strip(sweep), sweep.id
            changed = self.say(replace(strip, side=READ_ONLY) if share else strip) | self.show(
                sweep, _cost(cost), share
            )
        return changed | {self.pairs: NO_PAIRS} | self.around(request, sweep_id, share)

    def shown_again(self, request: gr.Request, sweep_id: str, share: str) -> Sweep | None:
        with suppress(*FAILURES):
            return self.load(request, sweep_id, share)[0]
        return None

    def against(self, sweep_id: str, share: str, cost: str, request: gr.Request) -> Updates:
        sweep = self.shown_again(request, sweep_id, share)
        return self.show(sweep, _cost(cost), share) if sweep else {self.strip: gr.update()}

    def choose(self, sweep_id: str, share: str, event: gr.EventData, request: gr.Request) -> str:
        row = event_data(event).get("row")
        return pairs_html(
            self.shown_again(request, sweep_id, share), row if isinstance(row, int) else -1
        )

    def more(self, pressed: int) -> tuple[str, int]:
        return write_cases(examples(pressed)), pressed + 1


def _cost(value: str) -> Cost:
    return Cost(value) if value in list(Cost) else FIRST
