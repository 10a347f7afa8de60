"""Runs as figures show them: with the lane they stand in, and the scale of margins that all share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from display.palette import LANES
from display.plot import Data, PointValue
from mars_core.rules import RULES
from mars_core.types import Token, Trace, numbers

ROW, LEAST_COLUMNS = 32, 8  # tokens in a row of a heatmap, and places in that of a short text
DEFAULT_THETA = 0.9
GAP = "e^−gap"


class PlottedRun(NamedTuple):
    """A run, the lane it stands in, and a name that no other run of its comparison has."""

    trace: Trace
    lane: int
    label: str

    @property
    def colour(self) -> str:
        return LANES[self.lane % len(LANES)]


def by_run(
    heads: Sequence[str], runs: Iterable[tuple[PlottedRun, Iterable[Sequence[PointValue]]]]
) -> Data:
    """Return the rows of every run, each after its lane and rule."""
    return Data(
        ("lane", "rule", *heads),
        [(run.lane + 1, run.label, *row) for run, rows in runs for row in rows],
    )


class Scale(NamedTuple):
    """What the heatmaps of all runs share; it ends at 1. ``border``: the margin from which a rule may
    relax; ``first``: their upper row; ``columns``: tokens in a row."""

    name: str  # "r" or GAP
    border: float
    low: float
    first: int = 0
    columns: int = ROW

    @property
    def title(self) -> str:
        return "r = z₂/z₁" if self.name == "r" else GAP

    @property
    def column(self) -> str:
        """The quantity as a CSV names it."""
        return "r" if self.name == "r" else "exp_minus_gap"

    def caption(self, border: float) -> str:
        """Write a border as the parameter of a rule."""
        return f"θ = {border:g}" if self.name == "r" else f"g = {-math.log(border):g}"

    def clipped(self, margin: float) -> float:
        """Return a margin within the scale; its low end, decisive, where there is none (z₁ ≤ 0)."""
        return min(1.0, max(self.low, margin))

    def grid_cell(self, position: int) -> tuple[int, int]:
        """Column and row of an output position: the same in every run."""
        return position % ROW, position // ROW - self.first


def rule_border(trace: Trace, name: str) -> float | None:
    """θ of a run on a scale, if its rule has one there."""
    rule = RULES.get(trace.config.rule.name)
    parameters = numbers(trace.config.rule.parameters) if rule and rule.margin_threshold else {}
    if name == "r":
        return parameters.get("theta")
    return math.exp(-parameters["gap"]) if "gap" in parameters else None


def margin_scale(traces: Sequence[Trace]) -> Scale:
    """Choose one scale for all runs: r with its θ; e^−gap where the only relaxed rule judges the
    gap."""
    borders = {
        name: [each for trace in traces if (each := rule_border(trace, name)) is not None]
        for name in ("r", GAP)
    }
    name = GAP if borders[GAP] and not borders["r"] else "r"
    border = [DEFAULT_THETA, *borders[name]][-1]
    tokens = [token for trace in traces for token in trace.tokens]
    known = [each for token in tokens if not math.isnan(each := margin(token, name))]
    low = max(0.0, math.floor(10 * min([*known, border - 0.1])) / 10)
    positions = [token.position for token in tokens] or [0]
    first, last = min(positions) // ROW, max(positions)
    columns = last % ROW + 1 if last // ROW == first else ROW
    return Scale(name, border, low, first, max(LEAST_COLUMNS, columns))


def margin(token: Token, name: str) -> float:
    """Return the margin on the quantity of a scale, 0 to 1, near 1 a near tie; nan where the ratio
    has no value."""
    return token.r if name == "r" else math.exp(-token.gap)
