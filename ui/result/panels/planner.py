"""When does it pay? The planner of a comparison: expected speed-up over K or the size of a tree,
for other costs and batches.

The panel holds the numbers that follow from the stored traces and sends them back with the fields,
so that nothing is read again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import gradio as gr
from pydantic import TypeAdapter

from display.blocks import Picture
from display.format import faster, number, plural, share
from display.palette import LANES
from evaluation.planner import (
    BUDGET,
    MOST,
    Acceptance,
    Costs,
    PlannedDraft,
    acceptance_of,
    best,
    costs_of,
    planned,
    times_of,
    uncut,
)
from ui.figures.planner import planner_plot
from ui.figures.runs import PlottedRun
from ui.kit.events import QUEUED, event_data
from ui.kit.panel import panel_component, render

CHEAPEST, DEAREST = (
    -300,
    50,
)  # a draft pass in target passes on the slider: hundredths of its decimal logarithm
LEAST_STEPS = 20  # of a run, to choose by
LARGEST_BATCH = 10  # as a power of 2
NOTHING = "There is nothing to plan from: no run drafted anything."
PACE = "Each further token of a target pass costs {} of a pass of one token."
SAME_PACE = "Target passes are assumed to take the same time up to the free tokens. Add a run of Target alone to measure it."


class PlannerRun(NamedTuple):
    """What the planner needs of a run; ``draft`` and ``slope`` as in Costs."""

    lane: int
    label: str
    draft: float
    slope: float
    steps: int
    acceptance: Acceptance


class PlannerFields(NamedTuple):
    """``run``: which one is chosen, ``was``: before; ``draft`` and ``batch`` as the sliders have
    them."""

    runs: list[PlannerRun]
    run: int = 0
    was: int = -1
    draft: float = 0
    batch: int = 0
    budget: float = BUDGET


FIELDS = TypeAdapter(PlannerFields)


def runs_of(runs: Sequence[PlottedRun]) -> list[PlannerRun]:
    """Return those that drafted. A run without drafts gives the time of a pass of one token."""
    singles = (times_of(run.trace) for run in runs if not run.trace.summary.drafted)
    single = next((times.pass_s for times in singles if times), math.nan)
    planned_runs = []
    for trace, lane, name in runs:
        acceptance, times = acceptance_of(trace), times_of(trace)
        if acceptance and times and times.pass_s > 0:
            costs, steps = costs_of(times, single), len(uncut(trace))
            planned_runs.append(PlannerRun(lane, name, costs.draft, costs.slope, steps, acceptance))
    return planned_runs


def planner_html(runs: Sequence[PlottedRun]) -> str:
    """Return the planner of these runs; a sentence alone where nothing was drafted."""
    drafted = runs_of(runs)
    if not drafted:
        return render("result/panels/planner.html.jinja", nothing=NOTHING)
    return fields_html(PlannerFields(drafted))


def fields_html(fields: PlannerFields) -> str:
    """Return the fields, the chart and what follows in a sentence. Raises ValueError,
    ArithmeticError or IndexError for numbers that no run has."""
    run, unchanged = fields.runs[fields.run], fields.was == fields.run
    measured = _on_slider(round(100 * math.log10(run.draft)) if run.draft > 0 else CHEAPEST)
    slider = _on_slider(fields.draft) if unchanged else measured
    draft = run.draft if slider == measured else 10 ** (slider / 100)
    batch = min(LARGEST_BATCH, max(0, fields.batch))
    plan = planned(run.acceptance, Costs(draft, run.slope, 2**batch, fields.budget))
    if not all(math.isfinite(each.speedup) for each in plan):
        raise ValueError(f"slope is {run.slope} and budget {fields.budget}: no finite speed-up.")
    unit = "N" if run.acceptance.sizes else "K"
    pace = PACE.format(number(run.slope)) if run.slope else SAME_PACE
    rates = ", ".join(map(share, run.acceptance.rates[:MOST]))
    title = (
        f"Acceptance at depth 1, 2, … where all before was kept: {rates}; assumed deeper: "
        f"{share(run.acceptance.beyond)}. {pace}"
    )
    plot = planner_plot(title, plan, unit, LANES[run.lane])
    return render(
        "result/panels/planner.html.jinja",
        nothing="",
        fields=fields,
        low=CHEAPEST,
        high=DEAREST,
        slider=slider,
        draft=number(draft),
        measured=number(run.draft),
        batch=batch,
        largest=LARGEST_BATCH,
        picture=Picture(f"planner-{run.lane + 1}-{unit}", "When does it pay?", plot),
        value={"runs": fields.runs, "was": fields.run},
        verdict=_verdict(run, plan, unit),
    )


def _verdict(run: PlannerRun, plan: Sequence[PlannedDraft], unit: str) -> str:
    if run.steps < LEAST_STEPS:
        return f"{plural(run.steps, 'step')}: too few to choose {unit} by, {LEAST_STEPS} needed."
    fastest = best(plan)
    if not fastest:
        return f"It does not pay: no {unit} is faster than decoding without drafts."
    as_run = plan[-1] if run.acceptance.sizes else plan[min(len(run.acceptance.rates), MOST) - 1]
    guess = ", which is extrapolated" if fastest.extrapolated else ""
    return f"Best is {_expected(fastest, unit, guess)} {_expected(as_run, unit, ', as it was run')}"


def _expected(draft: PlannedDraft, unit: str, words: str) -> str:
    pace = f"expected {faster(draft.speedup)} with {number(draft.tokens)} tokens per target pass"
    return f"{unit} = {draft.size}{words}: {pace}."


def _on_slider(draft: float) -> float:
    return min(DEAREST, max(CHEAPEST, draft))


def planner_panel(scope: str) -> gr.HTML:
    """Build the component; a change of a field draws it again."""
    panel = panel_component(planner_html([]), elem_id=f"{scope}-planner")
    # in the queue, one at a time: the answer to the last change comes last
    panel.select(redrawn, None, panel, trigger_mode="multiple", **QUEUED)
    return panel


def redrawn(event: gr.EventData) -> Any:
    """Draw what the browser sends, which is hostile: what cannot be drawn changes nothing."""
    data = event_data(event)
    sent = {name: value for name, value in data.items() if name in PlannerFields._fields}
    try:
        return fields_html(FIELDS.validate_json(json.dumps(sent)))
    except (ValueError, ArithmeticError, IndexError):
        return gr.skip()
