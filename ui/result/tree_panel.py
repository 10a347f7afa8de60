"""The draft tree of a chosen step: choosers of lane and step, what happened in words, and the figure. Serves live runs and History."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import gradio as gr

from mars_core.types import Outcome, Trace
from ui.figures.tree import tree_plot
from ui.kit.components import text_panel
from ui.kit.events import PRIVATE, event_data
from ui.kit.figure import figure_component, figure_json
from ui.kit.labels import run_names

Traces = Mapping[int, Trace]  # lane → its run
Updates = dict[Any, Any]
NOTHING = "No run drafted anything."


def drafting(traces: Traces) -> dict[int, Trace]:
    """The runs that drafted anything."""
    return {lane: trace for lane, trace in traces.items() if trace.summary.drafted}


def first_choice(traces: Traces) -> tuple[int, int]:
    """Lane and step to begin with: the first step of the rightmost run that forgave, else the one that kept most."""
    for lane in sorted(traces, reverse=True):
        for step in traces[lane].steps:
            if any(token.outcome is Outcome.RELAXED for token in step.emitted):
                return lane, step.index
    lane = max(traces)
    return lane, max(traces[lane].steps, key=lambda step: (step.kept, -step.index)).index


def step_of(traces: Traces, lane: int, index: int) -> int | None:
    """The step of the token at output position ``index`` of a lane; None where there is none, as for a given one."""
    tokens = traces[lane].tokens if lane in traces else ()
    place = index - tokens[0].position if tokens else -1
    return tokens[place].step if 0 <= place < len(tokens) else None


class TreePanel:
    """The components and their events; ``traces`` holds the runs that are shown, by visitor."""

    def __init__(self, scope: str, lanes: Sequence[gr.HTML]) -> None:
        """``lanes``: a click on a token of one chooses its step."""
        self.empty, self.traces = text_panel("mars-footnote"), gr.State(None)
        with gr.Column(visible=False, elem_classes=["mars-tree"], elem_id=f"{scope}-tree") as self.box:
            with gr.Row(elem_classes=["mars-tree-tools"]):
                columns = [(str(column + 1), column) for column in range(4)]
                self.lane = gr.Radio(columns, value=0, label="Run", min_width=200)
                self.step = gr.Slider(0, 1, 0, step=1, label="Step", min_width=200)
                previous = gr.Button("Previous", size="sm")
                following = gr.Button("Next", size="sm")
            with gr.Column(elem_classes=["mars-tree-plot"]):
                label = "Draft tree of the chosen step"
                self.plot = figure_component(scope=scope, name="draft-tree", label=label, wide=True)
        self.outputs: list[Any] = [self.box, self.empty, self.traces, self.lane, self.step, self.plot]
        chosen = [self.traces, self.lane, self.step]
        self.lane.input(self.draw, chosen, self.outputs, **PRIVATE)
        self.step.input(self.draw, chosen, self.outputs, trigger_mode="always_last", **PRIVATE)
        for button, by in ((previous, -1), (following, 1)):
            button.click(partial(self._move, by), chosen, self.outputs, **PRIVATE)
        for column, component in enumerate(lanes):
            component.select(self._chooser(column), self.traces, self.outputs, **PRIVATE)

    def _move(self, by: int, traces: Traces | None, lane: Any, step: Any) -> Updates:
        return self.draw(traces, lane, step + by)

    def _chooser(self, lane: int) -> Any:
        def choose(traces: Traces | None, event: gr.EventData) -> Updates:
            index = event_data(event).get("index")
            return self.draw(traces, lane, step_of(traces or {}, lane, index) if isinstance(index, int) else None)

        return choose

    def show(self, traces: Traces | None) -> Updates:
        """The runs of a comparison that ended; None, or runs without drafts, hide the panel."""
        drafted = drafting(traces or {})
        if not drafted:
            return {self.box: gr.update(visible=False), self.empty: NOTHING, self.traces: None}
        lane, step = first_choice(drafted)
        names = run_names([trace.config for trace in drafted.values()])
        choices = list(zip(names, drafted, strict=True))
        shown = {self.box: gr.update(visible=True), self.empty: "", self.traces: drafted}
        return shown | self.draw(drafted, lane, step) | {self.lane: gr.update(choices=choices, value=lane)}

    def draw(self, traces: Traces | None, lane: Any, step: Any) -> Updates:
        """One step of one lane; what does not exist changes nothing, a step beyond the last is the last."""
        if not traces or lane not in traces or not isinstance(step, int | float):
            return {self.box: gr.update()}
        last = len(traces[lane].steps) - 1
        chosen = min(max(0, int(step)), last)
        return {
            self.lane: lane,
            self.step: gr.update(value=chosen, maximum=max(1, last)),
            self.plot: figure_json(tree_plot(traces[lane], chosen)),
        }
