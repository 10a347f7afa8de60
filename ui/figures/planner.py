"""The planner's chart: expected tokens a target pass and speed-up over K. A drawing, so that it needs no script."""

from __future__ import annotations

from collections.abc import Sequence

from evaluation.format import number, ratio
from evaluation.planner import Planned
from evaluation.report.document.blocks import Axis, Drawing, Look, Mark, Panel
from evaluation.report.document.chart import BOTTOM, LEFT, PANEL, RIGHT, TOP, scaled_axis, with_legend

HEADS = ("k", "tokens_a_pass", "speedup", "extrapolated")
DEPTH = "K, depth of the draft"


def planner_drawing(plan: Sequence[Planned], colour: str) -> Drawing:
    """Hollow marks are extrapolated."""
    tokens = _panel(plan, 0, "Tokens a target pass", [each.tokens for each in plan], colour)
    speed = _panel(plan, PANEL, "Speed-up over decoding without drafts", [each.speedup for each in plan], colour)
    y = speed.y.at(1.0)
    speed = speed._replace(margin=(f"M{speed.x.start} {y:.1f}H{speed.right}", speed.right, y - 4, "without drafts"))
    keys = [(Look(colour), "depths that were drafted"), (Look(colour, hollow=True), "extrapolated")]
    shown = keys if plan[-1].extrapolated else keys[:1]
    return with_legend("Expected tokens a target pass and speed-up over K", (tokens, speed), shown)


def _panel(plan: Sequence[Planned], left: int, name: str, values: Sequence[float], colour: str) -> Panel:
    ks = [each.k for each in plan]
    x: Axis = scaled_axis(DEPTH, ks, 0.04, left + LEFT, left + PANEL - RIGHT, "{:g}".format, ks)
    write = ratio if left else number
    y = scaled_axis(name, [*values, 1.0], 0.08, BOTTOM, TOP + 4, write)
    marks = tuple(
        Mark(Look(colour, hollow=each.extrapolated), x.at(each.k), y.at(value), f"K = {each.k}: {write(value)}")
        for each, value in zip(plan, values, strict=True)
    )
    curve = "L".join(f"{mark.x:.1f} {mark.y:.1f}" for mark in marks)
    return Panel(left, left + PANEL - RIGHT, x, y, marks, ((colour, f"M{curve}"),))
