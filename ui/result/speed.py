"""How much faster one run is than another: every ratio of times comes from here, from several
rounds and with its interval. No gradio."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from display.format import faster, plural
from evaluation.statistics import Interval, mean_ratio, paired_ratios
from mars_core.types import Trace


class SpeedRatio(NamedTuple):
    """``ratio``, of tokens per second: missing where less than two rounds were measured, or both
    runs did the same work."""

    ratio: Interval = Interval()
    rounds: int = 0
    same_work: bool = False

    @property
    def measured(self) -> bool:
        return self.rounds > 1

    @property
    def measurable(self) -> bool:
        """Whether the interval excludes 1."""
        return self.ratio.low > 1 or self.ratio.high < 1

    @property
    def text(self) -> str:
        """``1.30× faster (3 rounds: 1.20× faster to 1.41× faster)``."""
        ends = " to ".join(map(faster, (self.ratio.low, self.ratio.high)))
        value = faster(self.ratio.value) if self.measurable else "undecided"
        return f"{value} ({plural(self.rounds, 'round')}: {ends})"

    def sentence(self) -> str:
        """``Time per token: 1.30× faster (3 rounds: …).``"""
        if self.same_work:
            return "The two did the same work."
        return f"Time per token: {self.text if self.measured else 'not measured'}."


def speed_ratio(
    left: Trace, right: Trace, bases: Sequence[float], speeds: Sequence[float]
) -> SpeedRatio:
    """Return the ratio of ``right`` over ``left``. ``bases``, ``speeds``: tokens per second of the
    runs and their repeats by round, nan where one did not end."""
    if (
        right.config.drafter == left.config.drafter  # another drafter's passes cost another time
        and right.summary.steps == left.summary.steps
        and right.token_ids == left.token_ids
    ):
        return SpeedRatio(same_work=True)
    rounds = paired_ratios(speeds, bases)
    return SpeedRatio(mean_ratio(rounds), len(rounds))
