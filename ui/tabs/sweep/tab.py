"""The Sweep tab: a grid of settings on some prompts, each as a pair with strict. Wires components to the plain handlers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import gradio as gr

from evaluation.study.pairs import Sweep, find_sweep, load_sweep
from evaluation.study.points import Cost, points
from storage import Shared, StorageError
from ui.figures.tradeoff import COSTS, tradeoff_plot
from ui.jobs.admission import unbroken
from ui.jobs.services import Services
from ui.kit.components import Group, Strip, downloads_component, downloads_html, message_strip, strip_component
from ui.kit.errors import error_message
from ui.kit.events import PRIVATE, event_data
from ui.kit.figure import figure_component, figure_json
from ui.kit.panel import panel_component
from ui.sharing import READ_ONLY, reading, share_component, share_html, wire_share
from ui.tabs.study.running import visitor_of_tab, wire_runs
from ui.tabs.study.studies import list_component, study_panel, sweeps_html
from ui.tabs.sweep.fields import SweepFields, build_fields, estimated, read_sweep, wire_fields
from ui.tabs.sweep.panels import pairs_html, settings_html
from ui.tabs.sweep.run import SweepFrame, reopened, run

CHART_S = 3.0  # between two drawings of the chart while a sweep runs
SCOPE = "sweep"
HINT = "Run the sweep: every prompt is decoded with strict and with the rule, once for each setting."
NO_CHART = "There is nothing to draw yet: no setting has both a speed-up and this cost. A score loss needs prompts with answers."
FIRST = Cost.TV  # of few prompts all texts may differ, which tells nothing apart
FILES = ("sweep.csv", "sweep-comparisons.csv")
RESULT = ["mars-details", "mars-sweep-result"]
Updates = dict[Any, Any]


@dataclass(frozen=True, slots=True)
class SweepView:
    """The components that events change."""

    strip: gr.HTML
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
        return [self.strip, self.result, self.chart, self.table, self.pairs, self.downloads, self.sharing]

    def say(self, strip: Strip) -> Updates:
        return {self.strip: strip.html()}

    def show(self, sweep: Sweep, cost: Cost, *, chart: bool = True, share: str = "") -> Updates:
        """Table and chart of a sweep; without ``chart`` that stays as it was. ``share``: token of the link it is read through."""
        drawn = {self.chart: chart_json(sweep, cost)} if chart else {}
        query = f"?sweep={sweep.id}{f'&share={share}' if share else ''}"
        downloads = downloads_html(Group("This sweep:", FILES, query))
        return {
            self.result: gr.update(elem_classes=RESULT),
            self.table: settings_html(sweep, cost),
            self.downloads: downloads,
        } | drawn


def build_view() -> SweepView:
    """The components below the fields."""
    strip = strip_component(message_strip(HINT), scope=SCOPE)
    # not visible=False: Gradio loses the properties of a component that is updated before it was ever mounted
    with gr.Column(elem_classes=[*RESULT, "mars-away"]) as result:
        with gr.Column(elem_classes=["mars-panel"]):
            choices = [(title, cost.value) for cost, title in COSTS.items()]
            cost = gr.Radio(choices, value=FIRST.value, label="Speed-up against", elem_id="sweep-cost")
            chart = figure_component(scope=SCOPE, name="tradeoff", label="Trade-off", empty=NO_CHART)
        with gr.Column(elem_classes=["mars-panel"]):
            table = study_panel(settings_html(None, FIRST), "sweep-table", scope=SCOPE)
            downloads = downloads_component("sweep-downloads")
            sharing = share_component(SCOPE)
            chosen = panel_component(pairs_html(None, -1), elem_id="sweep-pairs", name="")
    earlier = list_component("sweep")
    return SweepView(strip, result, cost, chart, table, chosen, downloads, sharing, earlier)


def chart_json(sweep: Sweep, cost: Cost) -> str:
    return figure_json(tradeoff_plot(sweep.plan, points(sweep.plan, sweep.pairs), cost))


@dataclass(frozen=True, slots=True)
class SweepTab:
    """The tab's parts. ``opened`` holds the id of the sweep that is shown, ``share`` the token of the link it is read through; or
    the empty string."""

    services: Services
    fields: SweepFields
    view: SweepView
    opened: gr.State
    share: gr.State

    @property
    def outputs(self) -> list[Any]:
        """What ``open`` changes."""
        return [*self.view.outputs, self.view.earlier, self.opened, self.share]

    def open(self, request: gr.Request, sweep_id: str, cost: str, token: object) -> Updates:
        """A stored sweep as it was shown when it ended; for the list and for the page's address."""
        public, own = self.services.public, self.services.seen_by(request).store
        store, share, frame = own, "", SweepFrame(message_strip("", "failed"))
        try:
            store, share = reading(self.services, request, token, lambda own: find_sweep(own, sweep_id))
            frame = reopened(store, sweep_id, public=public)
        except StorageError as error:
            frame = SweepFrame(message_strip(error_message(error, public=public), "failed"))
        shown = self.view.show(frame.shown, _cost(cost), share=share) if frame.shown else {}
        opened = frame.shown.id if frame.shown else ""
        strip = replace(frame.strip, side=READ_ONLY) if share and frame.shown else frame.strip
        listed = {self.view.earlier: sweeps_html(own, opened, public=public, share=share)}
        ids = {self.opened: opened, self.share: share}
        sharing = {self.view.sharing: share_html(own, Shared.SWEEP, opened, public=public)}
        return self.view.say(strip) | {self.view.pairs: pairs_html(None, -1)} | shown | listed | ids | sharing


def build_sweep_tab(services: Services, tab: gr.Tab) -> SweepTab:
    """The tab's components and events."""
    fields = build_fields(services)
    view = build_view()
    parts = SweepTab(services, fields, view, gr.State(""), gr.State(""))
    wire_fields(services, fields)
    _wire_run(parts)
    _wire_view(parts)
    wire_share(services, view.sharing)

    def enter(request: gr.Request, opened: str, share: str, *values: Any) -> tuple[str, str]:
        store = services.seen_by(request).store
        return sweeps_html(store, opened, public=services.public, share=share), estimated(services, read_sweep(*values))

    tab.select(enter, [parts.opened, parts.share, *fields.inputs], [view.earlier, fields.note], **PRIVATE)
    return parts


def _wire_run(parts: SweepTab) -> None:
    fields, view, services = parts.fields, parts.view, parts.services

    def sweep(request: gr.Request, cost: str, *values: Any) -> Iterator[Updates]:
        def updates() -> Iterator[Updates]:
            place = services.seen_by(request)
            yield from _updates(parts, run(place, read_sweep(*values), visitor_of_tab(place, SCOPE)), _cost(cost))

        yield from unbroken(updates(), view.say, "sweep")

    def end(request: gr.Request, opened: str, share: str) -> Updates:
        own = services.seen_by(request).store
        return {
            view.earlier: sweeps_html(own, opened, public=services.public, share=share),
            view.sharing: share_html(own, Shared.SWEEP, opened, public=services.public),
        }

    starts = [(fields.run, sweep, [view.cost, *fields.inputs])]
    ends = (end, [parts.opened, parts.share], [view.earlier, view.sharing])
    wire_runs(services, SCOPE, starts, fields.stop, view.strip, parts.outputs, ends, locked=[view.cost])


def _updates(parts: SweepTab, frames: Iterator[SweepFrame], cost: Cost) -> Iterator[Updates]:
    """Frames as updates. The chart is drawn when something ends and at most every few seconds before: drawing takes the browser long."""
    drawn, before = 0.0, ""
    for frame in frames:
        changed = parts.view.say(frame.strip)
        if frame.shown:
            due = frame.strip.state != "running" or time.monotonic() - drawn >= CHART_S
            drawn = time.monotonic() if due else drawn
            changed |= parts.view.show(frame.shown, cost, chart=due) | {parts.opened: frame.shown.id, parts.share: ""}
            changed |= {parts.view.pairs: pairs_html(None, -1)} if frame.shown.id != before else {}
            before = frame.shown.id
        yield changed


def _wire_view(parts: SweepTab) -> None:
    view, services = parts.view, parts.services

    def shown_again(request: gr.Request, opened: str, share: str) -> Sweep | None:
        with suppress(StorageError, ValueError):
            store, _ = reading(services, request, share, lambda own: find_sweep(own, opened))
            return load_sweep(store, opened)
        return None

    def against(opened: str, share: str, cost: str, request: gr.Request) -> Updates:
        shown = shown_again(request, opened, share)
        return view.show(shown, _cost(cost), share=share) if shown else {view.strip: gr.update()}

    def choose(opened: str, share: str, event: gr.EventData, request: gr.Request) -> str:
        row = event_data(event).get("row")
        return pairs_html(shown_again(request, opened, share), row if isinstance(row, int) else -1)

    def open_sweep(cost: str, event: gr.EventData, request: gr.Request) -> Updates:
        data = event_data(event)
        return parts.open(request, str(data.get("id", "")), cost, data.get("share"))

    view.cost.input(against, [parts.opened, parts.share, view.cost], view.outputs, **PRIVATE)
    view.table.select(choose, [parts.opened, parts.share], view.pairs, **PRIVATE)
    view.earlier.select(open_sweep, view.cost, parts.outputs, **PRIVATE)


def _cost(value: str) -> Cost:
    return Cost(value) if value in list(Cost) else FIRST
