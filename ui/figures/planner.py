"""The planner's figure: expected tokens a target pass and speed-up over K or the size of a tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from display.format import faster, number
from display.panels import Look, Mark, Panel, at, panels_plot, spanning
from display.plot import Data, Plot
from evaluation.planner import PlannedDraft

HEADS = ("size", "tokens_a_pass", "speedup", "extrapolated")
AXES = {"K": "K, depth of the draft", "N": "N, tokens of the tree"}
_DRAFTED = {"K": "depths that were drafted", "N": "smaller trees of the same drafts"}


def planner_plot(title: str, plan: Sequence[PlannedDraft], unit: str, colour: str) -> Plot:
    """``unit``: of ``AXES``. Hollow marks are extrapolated."""
    tokens = [each.tokens for each in plan]
    ratios = [each.speedup for each in plan]
    over = "Speed-up over decoding without drafts"
    speed = _panel(plan, unit, over, ratios, colour, ticksuffix="×")
    panels = (
        _panel(plan, unit, "Tokens per target pass", tokens, colour),
        speed._replace(level=(1.0, "without drafts")),
    )
    keys = [(Look(colour), _DRAFTED[unit]), (Look(colour, hollow=True), "extrapolated")]
    legend = keys if plan[-1].extrapolated else keys[:1]
    return panels_plot(title, panels, legend, Data(HEADS, plan))


def _panel(
    plan: Sequence[PlannedDraft],
    unit: str,
    name: str,
    values: Sequence[float],
    colour: str,
    **ticks: Any,
) -> Panel:
    write = faster if ticks else number
    marks = [
        Mark(
            Look(colour, hollow=each.extrapolated),
            at(each.size),
            at(value),
            f"{unit} = {each.size}: {write(value)}",
        )
        for each, value in zip(plan, values, strict=True)
    ]
    x = spanning((each.size for each in plan), AXES[unit], share=0.04)
    return Panel(name, x, spanning([*values, 1.0], **ticks), [marks])
