"""The draft tree of a chosen step: choosers of lane and step, what happened in words, and the
figure. Serves live runs and History: a page keeps the ids of its runs, and an event that needs a
trace has it read again. A run that could not be saved has a key instead of an id. It is here for as
long as few others are requested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from secrets import token_hex
from types import MappingProxyType
from typing import Any, NamedTuple

import gradio as gr

from display.blocks import Picture
from display.plot import Plot
from mars_core.numbers import number_of
from mars_core.types import Outcome, Trace
from storage import StorageError
from ui.figures.tree import tree_plot
from ui.jobs.services import Services
from ui.kit.events import QUEUED, Updates, event_data
from ui.kit.labels import run_names
from ui.kit.panel import panel_component, render
from ui.public.latest import Latest

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


MOST = 8  # traces in memory, of all pages together; one of 2,048 tokens takes a few MB


class DisplayedRuns(NamedTuple):
    """What a page keeps: column → id of its run, or key; ``share``: token of the link through which
    they are read; ``names``: by column."""

    runs: Mapping[int, str]
    share: str = ""
    names: Mapping[int, str] = MappingProxyType({})


class StoredRuns:
    """Traces by id or key, the latest ones in memory. Safe between threads. ``always``: traces that
    are in no store, by key."""

    def __init__(
        self, services: Services, always: Mapping[str, Trace] = MappingProxyType({})
    ) -> None:
        self._services, self._always = services, always
        self._recent = Latest[Trace](MOST)

    def keys(self, traces: Mapping[int, Trace], ids: Mapping[int, str]) -> dict[int, str]:
        """Column → id, or the key of a run without one, which is stored here."""
        keys = {lane: ids.get(lane) or f"unsaved-{token_hex(16)}" for lane in traces}
        for lane in (lane for lane in traces if not ids.get(lane)):
            self._recent.put(keys[lane], traces[lane])
        return keys

    def read(self, request: Any, displayed: DisplayedRuns, lane: int) -> Trace | None:
        """Read the run of a column with the rights of the visitor of ``request``; None where
        it is no longer there."""
        key = displayed.runs[lane]
        trace = self._always.get(key) or self._recent.get(key)
        if trace is None:
            with suppress(StorageError):
                store = self._services.for_visitor(request).store
                store = store.through(displayed.share) if displayed.share else store
                if trace := store.traces([key]).get(key):
                    self._recent.put(key, trace)
        return trace
