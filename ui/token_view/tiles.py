"""The running numbers of a lane, its stat tiles and its self-check, as plain values: the same live
and of a run that ended."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from display.format import MISSING, bounded, count, duration, number
from evaluation.statistics import over, wilson
from mars_core.rules import RULES
from mars_core.types import UNKNOWN, Outcome, RunConfig, ShiftKind, Step, Trace
from ui.kit.values import UNCHECKED, Check

FLOAT_ERROR = 1e-6  # a larger total variation is not rounding
Tile = tuple[str, str, str, str]  # name, value, unit, help


@dataclass(frozen=True, slots=True)
class LaneCounts:
    """The running numbers of a lane, updated step by step: O(1) a step, whatever the length of the
    run; unknown counts are UNKNOWN. ``tau``: of a run that ended, where its steps are not known."""

    tokens: int = 0
    steps: int = 0
    relaxed: int = 0
    elapsed_s: float = 0.0
    ttft_s: float = math.nan
    tv_sum: float = 0.0
    tv_max: float = 0.0
    tau: float = math.nan

    @property
    def mean_length(self) -> float:
        """Tokens per target pass."""
        return self.tau if self.steps == UNKNOWN else self._tokens_over(self.steps)

    @property
    def tokens_per_s(self) -> float:
        return self._tokens_over(self.elapsed_s)

    def _tokens_over(self, total: float) -> float:
        return math.nan if self.tokens == UNKNOWN else over(self.tokens, total)

    def after(self, step: Step) -> LaneCounts:
        emitted, known = step.emitted, step.drafted != UNKNOWN
        return replace(
            self,
            tokens=self.tokens + len(emitted),
            steps=self.steps + 1 if known else UNKNOWN,
            relaxed=self.relaxed + sum(each.outcome is Outcome.RELAXED for each in emitted)
            if known
            else UNKNOWN,
            elapsed_s=step.elapsed_s,
            ttft_s=step.elapsed_s if self.steps == 0 else self.ttft_s,
            tv_sum=self.tv_sum + math.fsum(token.tv for token in emitted),
            tv_max=max([self.tv_max, *(token.tv for token in emitted)]),
        )


RELAXED_BOUND = "estimated: the text’s TV is at most the expected number of relaxed tokens, here that of this run with its 95 % interval"


def relaxed_bound(relaxed: int, tokens: int) -> str:
    """Return the TV of a text where it is not known token by token: the number of relaxed tokens
    with Wilson's interval."""
    if relaxed == UNKNOWN:
        return MISSING
    low, high = wilson(relaxed, tokens)
    return f"≤ {count(relaxed)} ({number(low * tokens)}–{number(high * tokens)})"


def counts_of(trace: Trace) -> LaneCounts:
    """Return the same numbers of a run that ended."""
    s = trace.summary
    tv_max, tau = s.tv_max if s.new_tokens else 0.0, s.tau if s.steps == UNKNOWN else math.nan
    return LaneCounts(s.new_tokens, s.steps, s.relaxed, s.wall_s, s.ttft_s, s.tv_sum, tv_max, tau)


def stat_tiles(counts: LaneCounts, kind: ShiftKind = ShiftKind.EXACT) -> tuple[Tile, ...]:
    """Speed, first token, latency, shift; dashes before the run. ``kind``: of the TV."""
    began = counts.steps != 0
    missing = math.isnan(counts.tv_sum)
    tv_sum = (
        0.0 if counts.tv_max <= FLOAT_ERROR and not missing else counts.tv_sum
    )  # without rounding
    mean = over(tv_sum, counts.tokens) if began else math.nan
    shift, unit = bounded(number(100 * mean), kind), "% of p" if began else ""
    shift_help = (
        "share of the distribution p that is shifted (total variation), mean per token; largest at one "
        "token, of 1: "
    )
    shift_help += bounded(number(math.nan if missing else counts.tv_max), kind)
    if kind is ShiftKind.MISSING and began:
        shift, unit = relaxed_bound(counts.relaxed, counts.tokens), "TV, est."
        shift_help = RELAXED_BOUND
    return (
        (
            "Speed",
            number(counts.tokens_per_s),
            "tok/s" if began else "",
            "new tokens / wall time of the run",
        ),
        ("First token", *_time(counts.ttft_s), "TTFT: from the prompt to the first new token"),
        (
            "Latency",
            *_time(counts.elapsed_s if began else math.nan),
            "wall time of the run so far, or in all",
        ),
        ("Shift", shift, unit, shift_help),
    )


def _time(seconds: float) -> tuple[str, str]:
    value, _, unit = duration(seconds).partition(" ")
    return value, unit


def lane_check(config: RunConfig, tv_max: float, tokens: int) -> Check:
    """Return the self-check of one run, while it goes and after: a lossless rule must shift
    nothing."""
    rule = RULES.get(config.rule.name)
    if rule is None or not rule.lossless or not tokens or math.isnan(tv_max):
        return UNCHECKED
    if tv_max > FLOAT_ERROR:
        return Check(
            "bad",
            f"Self-check failed: {rule.title} must not shift the distribution, but its largest TV "
            f"is {number(tv_max)}.",
        )
    return Check("ok", f"Self-check: {rule.title} shifted nothing (largest TV {number(tv_max)}).")
