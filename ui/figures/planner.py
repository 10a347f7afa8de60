"""The planner's chart: expected tokens a target pass and speed-up over K or the size of a tree. A
drawing, so that it needs no script."""

from __future__ import annotations

from collections.abc import Sequence

from display.blocks import Axis, Drawing, Look, Mark, Panel
from display.format import faster, number, ratio
from evaluation.planner import PlannedDraft
from evaluation.report.document.drawing import (
    FOOT,
    HEIGHT,
    LEFT,
    PANEL,
    RIGHT,
    TOP,
    scaled_axis,
    with_legend,
)

HEADS = ("size", "tokens_a_pass", "speedup", "extrapolated")
AXES = {"K": "K, depth of the draft", "N": "N, tokens of the tree"}
_DRAFTED = {"K": "depths that were drafted", "N": "smaller trees of the same drafts"}


def planner_drawing(plan: Sequence[PlannedDraft], unit: str, colour: str) -> Drawing:
    """``unit``: of ``AXES``. Hollow marks are extrapolated."""
    tokens = _panel(plan, unit, 0, "Tokens per target pass", [each.tokens for each in plan], colour)
    speed = _panel(
        plan,
        unit,
        PANEL,
        "Speed-up over decoding without drafts",
        [each.speedup for each in plan],
        colour,
    )
    speed = speed._replace(level=("y", speed.y.at(1.0), "without drafts"))
    keys = [(Look(colour), _DRAFTED[unit]), (Look(colour, hollow=True), "extrapolated")]
    legend = keys if plan[-1].extrapolated else keys[:1]
    return with_legend(
        f"Expected tokens per target pass and speed-up over {unit}", (tokens, speed), legend
    )


def _panel(
    plan: Sequence[PlannedDraft],
    unit: str,
    left: int,
    name: str,
    values: Sequence[float],
    colour: str,
) -> Panel:
    sizes = [each.size for each in plan]
    x: Axis = scaled_axis(
        AXES[unit], sizes, 0.04, left + LEFT, left + PANEL - RIGHT, "{:g}".format, sizes
    )
    write = ratio if left else number  # at the axis, which names the direction
    y = scaled_axis(name, [*values, 1.0], 0.08, HEIGHT - FOOT, TOP, write)
    marks = []
    for each, value in zip(plan, values, strict=True):
        text, look = (
            f"{unit} = {each.size}: {(faster if left else number)(value)}",
            Look(colour, hollow=each.extrapolated),
        )
        marks.append(Mark(look, x.at(each.size), y.at(value), text))
    series = (tuple(marks),)
    return Panel(left, left + PANEL - RIGHT, x, y, series, series)
