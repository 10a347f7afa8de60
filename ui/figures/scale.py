"""The one scale on which the margins of all runs of a comparison are drawn: r, or e^−gap. Standard library alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from mars_core.types import Token, Trace

ROW = 32  # tokens in a row of the heatmap
DEFAULT_THETA = 0.9
GAP = "e^−gap"


class Scale(NamedTuple):
    """What the heatmaps of all runs share. ``border``: the margin from which a rule may relax; ``first``: their upper row."""

    name: str  # "r" or GAP
    border: float
    caption: str
    low: float
    high: float
    first: int = 0

    @property
    def title(self) -> str:
        return "r = z₂/z₁" if self.name == "r" else GAP

    @property
    def column(self) -> str:
        """The quantity as a CSV names it."""
        return "r" if self.name == "r" else "exp_minus_gap"

    def place(self, position: int) -> tuple[int, int]:
        """Column and row of an output position: the same in every run."""
        return position % ROW, position // ROW - self.first


def own_border(trace: Trace, name: str) -> float | None:
    """θ of a run on a scale, if its rule has one there."""
    given = trace.config.rule.parameters if trace.config.rule.name.startswith("mars") else {}
    if name == "r":
        return given.get("theta")
    return math.exp(-given["gap"]) if "gap" in given else None


def margin_scale(traces: Sequence[Trace]) -> Scale:
    """One scale for all runs: r with its θ; e^−gap where the only relaxed rule judges the gap."""
    thetas, gaps = ([b for trace in traces if (b := own_border(trace, name)) is not None] for name in ("r", GAP))
    name = GAP if gaps and not thetas else "r"
    border = [DEFAULT_THETA, *(gaps if name == GAP else thetas)][-1]
    caption = f"g = {-math.log(border):g}" if name == GAP else f"θ = {border:g}"
    margins = [value for trace in traces for token in trace.tokens if not math.isnan(value := margin(token, name))]
    low = max(0.0, math.floor(10 * min([*margins, border - 0.1])) / 10)
    first = min((trace.tokens[0].position // ROW for trace in traces if trace.tokens), default=0)
    return Scale(name, border, caption, low, 1.0, first)


def margin(token: Token, name: str) -> float:
    """On the quantity of a scale, 0 to 1, near 1 a near tie; nan where the ratio has no value."""
    return token.r if name == "r" else math.exp(-token.gap)
