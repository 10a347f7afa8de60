"""How much faster one run is than another: every ratio of times comes from here, with its interval.
No gradio."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from evaluation.format import plural, ratio
from evaluation.statistics import Interval, mean_ratio, paired_ratios
from mars_core.types import Trace

SAME_SPEED = 0.01  # without an interval, closer speeds are called equal


class SpeedRatio(NamedTuple):
    """``ratio``: missing where no round was measured, or both runs did the same work."""

    ratio: Interval = Interval()
    rounds: int = 0
    same_work: bool = False

    @property
    def measurable(self) -> bool:
        """Whether the interval excludes 1."""
        return self.ratio.low > 1 or self.ratio.high < 1

    def sentence(self) -> str:
        """``Time: 1.30× faster (3 rounds: 1.20× to 1.41×).``"""
        if self.same_work:
            return "Same tokens, same passes: there is no time to compare."
        if not self.rounds:
            return "Time: not measured."
        factor, low, high = self.ratio
        if self.rounds == 1 and abs(factor - 1) < SAME_SPEED:
            return "Time: equal (one run)."
        speed = "faster" if factor > 1 else "slower"
        if factor < 1:
            factor, low, high = 1 / factor, 1 / high, 1 / low
        if self.rounds == 1:
            return f"Time: {ratio(factor)} {speed} (one run)."
        rounds = plural(self.rounds, "round")
        if self.measurable:
            return f"Time: {ratio(factor)} {speed} ({rounds}: {ratio(low)} to {ratio(high)})."
        low, high = self.ratio.low, self.ratio.high
        return f"Time: not measurable ({rounds}: {ratio(low)} to {ratio(high)})."


def speed_ratio(
    left: Trace,
    right: Trace,
    bases: Sequence[float] | None = None,
    speeds: Sequence[float] | None = None,
) -> SpeedRatio:
    """Of ``right`` over ``left``. ``bases``, ``speeds``: tokens per second of the runs and their
    repeats by round, nan where one did not end; without them those of the runs alone."""
    if (
        right.config.drafter == left.config.drafter  # another drafter's passes cost another time
        and right.summary.steps == left.summary.steps
        and right.token_ids == left.token_ids
    ):
        return SpeedRatio(same_work=True)
    rounds = paired_ratios(
        [right.summary.tokens_per_s] if speeds is None else speeds,
        [left.summary.tokens_per_s] if bases is None else bases,
    )
    return SpeedRatio(mean_ratio(rounds), len(rounds)) if rounds else SpeedRatio()
