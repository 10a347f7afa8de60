"""When does it pay? The planner of a comparison: expected speed-up over K of a run, for other costs and batch sizes.

The panel holds the numbers that follow from the stored traces and sends them back with the fields, so that nothing is read again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import gradio as gr
from pydantic import BaseModel, Field, ValidationError

from evaluation.format import number, ratio, share
from evaluation.planner import (
    BUDGET,
    Acceptance,
    Costs,
    Planned,
    acceptance_of,
    best,
    costs_of,
    planned,
    single_pass_s,
    times_of,
)
from evaluation.report.document.render import pages
from evaluation.report.files import csv_text
from mars_core.types import Trace
from ui.figures.planner import HEADS, planner_drawing
from ui.kit.assets import asset
from ui.kit.events import PRIVATE, event_data
from ui.kit.labels import run_names
from ui.kit.palette import LANES

CHEAPEST, DEAREST = 0.001, 3.0  # draft passes in target passes, on a logarithmic slider of hundredths
LARGEST_BATCH = 10  # power of 2
PACE = "Each further token of a target pass costs {} of a pass of one token."
SAME_PACE = "Target passes are taken to cost the same up to the free tokens; a run without drafts beside it would tell."
NOTHING = "No run drafted anything, so there is nothing to plan from."

Share = Annotated[float, Field(ge=0, le=1)]
Cost = Annotated[float, Field(ge=0, le=1e6)]
Depths = Annotated[list[Annotated[float, Field(ge=0, le=1e6)]], Field(min_length=1, max_length=256)]


class Run(BaseModel):
    """What the planner needs of a run."""

    lane: Annotated[int, Field(ge=0, lt=len(LANES))]
    label: Annotated[str, Field(max_length=400)]
    rates: Annotated[list[Share], Field(min_length=1, max_length=256)]
    beyond: Share
    verified: Depths
    tree: bool
    draft: Cost
    slope: Cost


class Asked(BaseModel):
    """The fields. ``run``: which one is chosen, ``was``: before; ``draft`` and ``batch`` as the sliders have them."""

    runs: Annotated[list[Run], Field(min_length=1, max_length=len(LANES))]
    run: Annotated[int, Field(ge=0)] = 0
    was: int = -1
    draft: Annotated[float, Field(ge=100 * math.log10(CHEAPEST), le=100 * math.log10(DEAREST))] = 0
    batch: Annotated[int, Field(ge=0, le=LARGEST_BATCH)] = 0
    budget: Annotated[float, Field(ge=1, le=1e6)] = BUDGET


def runs_of(traces: Mapping[int, Trace]) -> list[Run]:
    """By lane, those that drafted. A run without drafts among ``traces`` gives the time of a pass of one token."""
    singles = [single_pass_s(trace) for trace in traces.values() if not trace.summary.drafted]
    single = next((each for each in singles if each > 0), math.nan)
    found = []
    for (lane, trace), name in zip(traces.items(), run_names([trace.config for trace in traces.values()]), strict=True):
        run, times = acceptance_of(trace), times_of(trace)
        if run and times and times.pass_s > 0:
            costs = costs_of(times, single)
            found.append(Run(lane=lane, label=name[:400], draft=costs.draft, slope=costs.slope, **run._asdict()))
    return found


def planner_html(asked: Asked | None) -> str:
    """The fields, the chart and what follows in a sentence; a sentence alone where nothing was drafted."""
    template = pages(("ui", "kit/templates"), ("ui", "result")).get_template("planner.html.jinja")
    if asked is None:
        return template.render(nothing=NOTHING)
    place = min(asked.run, len(asked.runs) - 1)
    run = asked.runs[place]
    measured = min(DEAREST, max(CHEAPEST, run.draft))
    kept = asked.was == place
    at = round(100 * math.log10(measured))
    draft = 10 ** (asked.draft / 100) if kept and round(asked.draft) != at else measured
    costs = Costs(draft, run.slope, 2**asked.batch, asked.budget)
    plan = planned(Acceptance(tuple(run.rates), run.beyond, tuple(run.verified), run.tree), costs)
    drawing = planner_drawing(plan, LANES[run.lane])
    return template.render(
        nothing="", runs=asked.runs, chosen=place, low=100 * math.log10(CHEAPEST), high=100 * math.log10(DEAREST),
        slider=round(100 * math.log10(draft)), draft=number(draft), measured=number(run.draft), batch=asked.batch,
        largest=LARGEST_BATCH, sequences=2**asked.batch, budget=asked.budget, drawing=drawing,
        csv=csv_text([HEADS, *plan]), value={"runs": [each.model_dump() for each in asked.runs], "was": place},
        verdict=_verdict(run, plan), pace=PACE.format(number(run.slope)) if run.slope else SAME_PACE, kept=kept,
        rates=", ".join(map(share, run.rates)), beyond=share(run.beyond),
    )  # fmt: skip


def _verdict(run: Run, plan: Sequence[Planned]) -> str:
    fastest = best(plan)
    if fastest is None:
        return "It does not pay: no K is faster than decoding without drafts."
    far = ", which is extrapolated" if fastest.extrapolated else ""
    deepest = plan[min(len(run.rates), len(plan)) - 1]
    return (
        f"Best is K = {fastest.k}{far}: {ratio(fastest.speedup)} with {number(fastest.tokens)} tokens a target pass. "
        f"K = {deepest.k}, as it was run: {ratio(deepest.speedup)}."
    )


class PlannerPanel:
    """One component; a change of a field draws it again."""

    def __init__(self, scope: str) -> None:
        script = f"{asset('panel.js')}\n{asset('chart.js')}"
        self.panel = gr.HTML(
            planner_html(None), html_template="<div></div>", js_on_load=script, apply_default_css=False, elem_id=f"{scope}-planner"
        )  # fmt: skip
        self.panel.select(self._draw, None, self.panel, trigger_mode="always_last", **PRIVATE)

    def show(self, traces: Mapping[int, Trace]) -> dict[Any, Any]:
        """Of a comparison's runs, by lane."""
        runs = runs_of(traces)
        return {self.panel: planner_html(Asked(runs=runs) if runs else None)}

    @staticmethod
    def _draw(event: gr.EventData) -> Any:
        """What the browser sends is hostile: what cannot be drawn changes nothing."""
        try:
            return planner_html(Asked.model_validate_json(json.dumps(event_data(event))))
        except ValidationError:
            return gr.skip()
