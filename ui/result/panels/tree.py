"""The draft tree of a chosen step: choosers of lane and step, what happened in words, and the
figure. Serves live runs and History."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import gradio as gr

from display.figure import figure_json
from mars_core.numbers import number_of
from mars_core.types import Outcome, Trace
from ui.figures.tree import tree_plot
from ui.kit.events import QUEUED, Updates, event_data
from ui.kit.labels import run_names
from ui.kit.panel import panel_component, render
from ui.result.figure import figure_component
from ui.result.stored_runs import DisplayedRuns, StoredRuns

RunTraces = Mapping[int, Trace]  # lane → its run
BY = {"previous": -1, "next": 1}  # the buttons
NOTHING = "No run drafted anything."
GONE = "This run cannot be read any more: it was deleted, or could not be saved. Run the comparison again to see its trees."


def drafting(traces: RunTraces) -> dict[int, Trace]:
    return {lane: trace for lane, trace in traces.items() if trace.summary.drafted}


def first_choice(traces: RunTraces) -> tuple[int, int]:
    """Lane and step to begin with: the first step of the rightmost run that relaxed a token, else
    the one that kept most."""
    for lane in sorted(traces, reverse=True):
        for step in traces[lane].steps:
            if any(token.outcome is Outcome.RELAXED for token in step.emitted):
                return lane, step.index
    lane = max(traces)
    return lane, max(traces[lane].steps, key=lambda step: (step.kept, -step.index)).index


def step_of(trace: Trace, index: int) -> int | None:
    """The step of the token at output position ``index``; None where there is none, as for a given
    one."""
    tokens = trace.tokens
    offset = index - tokens[0].position if tokens else -1
    return tokens[offset].step if 0 <= offset < len(tokens) else None


class TreeChoice(NamedTuple):
    """What the choosers show. ``names``: of the runs, by lane; ``last``: the run's last step."""

    names: Mapping[int, str]
    lane: int
    step: int
    last: int


def choosers_html(choice: TreeChoice | None = None, message: str = NOTHING) -> str:
    return render("result/panels/tree.html.jinja", choice=choice, message=message)


class TreePanel:
    """The components and their events; ``displayed`` holds which runs are displayed, a DisplayedRuns or None,
    by visitor."""

    def __init__(self, scope: str, lanes: Sequence[gr.HTML], stored: StoredRuns) -> None:
        """``lanes``: a click on a token of one chooses its step."""
        self.stored, self.displayed = stored, gr.State(None)
        with gr.Column(elem_classes=["mars-tree-plot"], elem_id=f"{scope}-tree"):
            self.choosers = panel_component(choosers_html(), elem_id=f"{scope}-tree-choosers")
            label = "Draft tree of the chosen step"
            self.plot = figure_component(
                scope=scope, name="draft-tree", label=label, empty="", wide=True
            )
        self.outputs: list[Any] = [self.displayed, self.choosers, self.plot]
        chosen = [each.select for each in (self.choosers, *lanes)]
        gr.on(
            chosen,
            self.choose,
            self.displayed,
            self.outputs,
            trigger_mode="multiple",
            **QUEUED,
        )

    def choose(
        self, displayed: DisplayedRuns | None, event: gr.EventData, request: gr.Request
    ) -> Updates:
        """A token of a lane that was clicked, or the selection of the choosers. What does not exist
        changes nothing."""
        data = event_data(event)
        lane, index, step = (number_of(data.get(name)) for name in ("lane", "index", "step"))
        if not displayed or not isinstance(lane, int) or lane not in displayed.runs:
            return {self.choosers: gr.skip()}
        trace = self.stored.read(request, displayed, lane)
        if trace is None:
            return {self.choosers: choosers_html(message=GONE)}
        if index is not None:
            step = step_of(trace, int(index))
        elif step is not None:
            step += BY.get(str(data.get("by")), 0)
        return self._draw(displayed.names, trace, lane, step)

    def show(
        self, traces: RunTraces, ids: Mapping[int, str] = MappingProxyType({}), share: str = ""
    ) -> Updates:
        """The runs of a comparison that ended. ``ids``: of those that were saved."""
        drafted = drafting(traces)
        if not drafted:
            plot = {self.plot: figure_json(None)}
            return {self.displayed: None, self.choosers: choosers_html()} | plot
        lane, step = first_choice(drafted)
        names = run_names([trace.config for trace in drafted.values()])
        displayed = DisplayedRuns(
            self.stored.keys(drafted, ids), share, dict(zip(drafted, names, strict=True))
        )
        drawn = self._draw(displayed.names, drafted[lane], lane, step)
        return {self.displayed: displayed} | drawn

    def _draw(
        self, names: Mapping[int, str], trace: Trace, lane: int, step: float | None
    ) -> Updates:
        """One step of one lane; a step beyond the last is the last."""
        if not trace.steps or step is None:
            return {self.choosers: gr.skip()}
        last = len(trace.steps) - 1
        choice = TreeChoice(names, lane, min(max(0, int(step)), last), last)
        figure = figure_json(tree_plot(trace, choice.step))
        return {self.choosers: choosers_html(choice), self.plot: figure}
