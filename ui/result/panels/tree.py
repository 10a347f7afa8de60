"""The draft tree of a chosen step: choosers of lane and step, what happened in words, and the
figure. Serves live runs and History."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import gradio as gr

from display.blocks import Picture
from display.plot import Plot
from mars_core.numbers import number_of
from mars_core.types import Outcome, Trace
from ui.figures.tree import tree_plot
from ui.kit.events import QUEUED, Updates, event_data
from ui.kit.labels import run_names
from ui.kit.panel import panel_component, render
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
    """Return the step of the token at output position ``index``; None where there is none, as for a
    given one."""
    tokens = trace.tokens
    offset = index - tokens[0].position if tokens else -1
    return tokens[offset].step if 0 <= offset < len(tokens) else None


class TreeChoice(NamedTuple):
    """What the choosers show. ``names``: of the runs, by lane; ``last``: the run's last step."""

    names: Mapping[int, str]
    lane: int
    step: int
    last: int


def tree_html(
    choice: TreeChoice | None = None, plot: Plot | None = None, message: str = NOTHING
) -> str:
    picture = plot and Picture("draft-tree", "Draft tree of the chosen step", plot, 720)
    return render("result/panels/tree.html.jinja", choice=choice, picture=picture, message=message)


class TreePanel:
    """The components and their events; ``displayed`` holds which runs are displayed, a DisplayedRuns or None,
    by visitor."""

    def __init__(self, scope: str, lanes: Sequence[gr.HTML], stored: StoredRuns) -> None:
        """``lanes``: a click on a token of one chooses its step."""
        self.stored, self.displayed = stored, gr.State(None)
        self.panel = panel_component(tree_html(), elem_id=f"{scope}-tree")
        self.outputs: list[Any] = [self.displayed, self.panel]
        chosen = [each.select for each in (self.panel, *lanes)]
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
        """Choose a token of a lane that was clicked, or the selection of the choosers. What does
        not exist changes nothing."""
        data = event_data(event)
        lane, index, step = (number_of(data.get(name)) for name in ("lane", "index", "step"))
        if not displayed or not isinstance(lane, int) or lane not in displayed.runs:
            return {self.panel: gr.skip()}
        trace = self.stored.read(request, displayed, lane)
        if trace is None:
            return {self.panel: tree_html(message=GONE)}
        if index is not None:
            step = step_of(trace, int(index))
        elif step is not None:
            step += BY.get(str(data.get("by")), 0)
        return self._draw(displayed.names, trace, lane, step)

    def show(
        self, traces: RunTraces, ids: Mapping[int, str] = MappingProxyType({}), share: str = ""
    ) -> Updates:
        """Show the runs of a comparison that ended. ``ids``: of those that were saved."""
        drafted = drafting(traces)
        if not drafted:
            return {self.displayed: None, self.panel: tree_html()}
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
        """Draw one step of one lane; a step beyond the last is the last."""
        if not trace.steps or step is None:
            return {self.panel: gr.skip()}
        last = len(trace.steps) - 1
        choice = TreeChoice(names, lane, min(max(0, int(step)), last), last)
        return {self.panel: tree_html(choice, tree_plot(trace, choice.step))}
