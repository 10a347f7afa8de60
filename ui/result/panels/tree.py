"""The draft tree of a chosen step: choosers of lane and step, what happened in words, and the
figure. Serves live runs and History."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import gradio as gr

from mars_core.types import Outcome, Trace
from ui.figures.tree import tree_plot
from ui.kit.components import text_panel
from ui.kit.events import PRIVATE, Updates, event_data
from ui.kit.labels import run_names
from ui.result.figure import figure_component, figure_json
from ui.result.stored_runs import DisplayedRuns, StoredRuns

Traces = Mapping[int, Trace]  # lane → its run
NOTHING = "No run drafted anything."
GONE = "This run cannot be read any more: it was deleted, or could not be saved. Run the comparison again to see its trees."


def drafting(traces: Traces) -> dict[int, Trace]:
    return {lane: trace for lane, trace in traces.items() if trace.summary.drafted}


def first_choice(traces: Traces) -> tuple[int, int]:
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


class TreePanel:
    """The components and their events; ``displayed`` holds which runs are shown, a DisplayedRuns or None,
    by visitor."""

    def __init__(self, scope: str, lanes: Sequence[gr.HTML], stored: StoredRuns) -> None:
        """``lanes``: a click on a token of one chooses its step."""
        self.stored = stored
        self.empty, self.displayed = text_panel("mars-footnote"), gr.State(None)
        with gr.Column(
            visible=False, elem_classes=["mars-tree"], elem_id=f"{scope}-tree"
        ) as self.box:
            with gr.Row(elem_classes=["mars-tree-tools"]):
                columns = [(str(column + 1), column) for column in range(4)]
                self.lane = gr.Radio(columns, value=0, label="Run", min_width=200)
                self.step = gr.Slider(0, 1, 0, step=1, label="Step", min_width=200)
                previous = gr.Button("Previous", size="sm")
                following = gr.Button("Next", size="sm")
            with gr.Column(elem_classes=["mars-tree-plot"]):
                label = "Draft tree of the chosen step"
                self.plot = figure_component(scope=scope, name="draft-tree", label=label, wide=True)
        self.outputs: list[Any] = [
            self.box,
            self.empty,
            self.displayed,
            self.lane,
            self.step,
            self.plot,
        ]
        chosen = [self.displayed, self.lane, self.step]
        moved = [self.lane.input, self.step.input]
        gr.on(moved, self._mover(0), chosen, self.outputs, trigger_mode="always_last", **PRIVATE)
        for button, by in ((previous, -1), (following, 1)):
            button.click(self._mover(by), chosen, self.outputs, **PRIVATE)
        gr.on([each.select for each in lanes], self.choose, self.displayed, self.outputs, **PRIVATE)

    def _mover(self, by: int) -> Any:
        def move(
            displayed: DisplayedRuns | None, lane: Any, step: Any, request: gr.Request
        ) -> Updates:
            return self._read(request, displayed, lane, lambda _: step + by)

        return move

    def choose(
        self, displayed: DisplayedRuns | None, event: gr.EventData, request: gr.Request
    ) -> Updates:
        lane, index = map(event_data(event).get, ("lane", "index"))
        if not isinstance(lane, int) or not isinstance(index, int):
            return {self.box: gr.update()}
        return self._read(request, displayed, lane, lambda trace: step_of(trace, index))

    def _read(
        self,
        request: gr.Request,
        displayed: DisplayedRuns | None,
        lane: Any,
        step: Callable[[Trace], float | None],
    ) -> Updates:
        """A step of a lane that is shown; without such a lane nothing changes."""
        if not displayed or lane not in displayed.runs:
            return {self.box: gr.update()}
        trace = self.stored.read(request, displayed, lane)
        return self.draw(trace, lane, step(trace)) if trace else {self.empty: GONE}

    def show(
        self, traces: Traces, ids: Mapping[int, str] = MappingProxyType({}), share: str = ""
    ) -> Updates:
        """The runs of a comparison that ended; where none has drafts the panel is hidden. ``ids``:
        of those that were saved."""
        drafted = drafting(traces)
        if not drafted:
            return {self.box: gr.update(visible=False), self.empty: NOTHING, self.displayed: None}
        lane, step = first_choice(drafted)
        names = run_names([trace.config for trace in drafted.values()])
        choices = list(zip(names, drafted, strict=True))
        displayed = {
            self.box: gr.update(visible=True),
            self.displayed: DisplayedRuns(self.stored.keys(drafted, ids), share),
        }
        return (
            displayed
            | self.draw(drafted[lane], lane, step)
            | {self.lane: gr.update(choices=choices, value=lane)}
        )

    def draw(self, trace: Trace, lane: int, step: Any) -> Updates:
        """One step of one lane; what does not exist changes nothing, a step beyond the last is the
        last."""
        if not trace.steps or not isinstance(step, int | float):
            return {self.box: gr.update()}
        last = len(trace.steps) - 1
        chosen = min(max(0, int(step)), last)
        return {
            self.empty: "",
            self.lane: lane,
            self.step: gr.update(value=chosen, maximum=max(1, last)),
            self.plot: figure_json(tree_plot(trace, chosen)),
        }
