"""The numbers of a run under way, its stat tiles and its self-check, as plain values: the same live
and of a run that ended."""

from __future__ import annotations

import math
from dataclasses import replace

from display.format import MISSING, bounded, count, duration, number
from evaluation.statistics import over, wilson
from mars_core.rules import RULES
from mars_core.telemetry import summarise
from mars_core.types import UNKNOWN, Outcome, RunConfig, ShiftKind, Step, Summary
from ui.kit.values import UNCHECKED, Check

FLOAT_ERROR = 1e-6  # a larger total variation is not rounding
Tile = tuple[str, str, str, str]  # name, value, unit, help


# of a run that has not begun
NOTHING = replace(
    summarise((), prompt_tokens=0, prefill_s=0.0, peak_memory_bytes=0), tv_sum=0.0, tv_max=0.0
)


def counted(numbers: Summary, step: Step) -> Summary:
    """Return those numbers of a run under way that are displayed, after one more step: O(1),
    whatever its length."""
    emitted, known = step.emitted, step.drafted != UNKNOWN
    tokens = numbers.new_tokens + len(emitted)
    steps = numbers.steps + 1 if known else UNKNOWN
    relaxed = numbers.relaxed + sum(each.outcome is Outcome.RELAXED for each in emitted)
    return replace(
        numbers,
        new_tokens=tokens,
        steps=steps,
        relaxed=relaxed if known else UNKNOWN,
        wall_s=step.elapsed_s,
        ttft_s=step.elapsed_s if numbers.steps == 0 else numbers.ttft_s,
        tokens_per_s=over(tokens, step.elapsed_s),
        tau=over(tokens, steps) if known else math.nan,
        tv_sum=numbers.tv_sum + math.fsum(token.tv for token in emitted),
        tv_max=max([numbers.tv_max, *(token.tv for token in emitted)]),
    )


RELAXED_BOUND = "estimated: the text’s TV is at most the expected number of relaxed tokens, here that of this run with its 95 % interval"


def relaxed_bound(summary: Summary) -> str:
    """Return the TV of a text where it is not known token by token: the number of relaxed tokens
    with Wilson's interval."""
    relaxed, tokens = summary.relaxed, summary.new_tokens
    if relaxed == UNKNOWN:
        return MISSING
    low, high = wilson(relaxed, tokens)
    return f"≤ {count(relaxed)} ({number(low * tokens)}–{number(high * tokens)})"


def stat_tiles(summary: Summary, kind: ShiftKind = ShiftKind.EXACT) -> tuple[Tile, ...]:
    """Speed, first token, latency, shift; dashes before the run. ``kind``: of the TV."""
    began = summary.steps != 0
    missing = math.isnan(summary.tv_sum)
    tv_sum = (
        0.0 if summary.tv_max <= FLOAT_ERROR and not missing else summary.tv_sum
    )  # without rounding
    mean = over(tv_sum, summary.new_tokens) if began else math.nan
    shift, unit = bounded(number(100 * mean), kind), "% of p" if began else ""
    shift_help = (
        "share of the distribution p that is shifted (total variation), mean per token; largest at one "
        "token, of 1: "
    )
    shift_help += bounded(number(math.nan if missing else summary.tv_max), kind)
    if kind is ShiftKind.MISSING and began:
        shift, unit = relaxed_bound(summary), "TV, est."
        shift_help = RELAXED_BOUND
    return (
        (
            "Speed",
            number(summary.tokens_per_s),
            "tok/s" if began else "",
            "new tokens / wall time of the run",
        ),
        ("First token", *_time(summary.ttft_s), "TTFT: from the prompt to the first new token"),
        (
            "Latency",
            *_time(summary.wall_s if began else math.nan),
            "wall time of the run so far, or in all",
        ),
        ("Shift", shift, unit, shift_help),
    )


def _time(seconds: float) -> tuple[str, str]:
    value, _, unit = duration(seconds).partition(" ")
    return value, unit


def lane_check(config: RunConfig, summary: Summary) -> Check:
    """Return the self-check of one run, while it goes and after: a lossless rule must shift
    nothing."""
    rule, tv_max = RULES.get(config.rule.name), summary.tv_max
    if rule is None or not rule.lossless or not summary.new_tokens or math.isnan(tv_max):
        return UNCHECKED
    if tv_max > FLOAT_ERROR:
        return Check(
            "bad",
            f"Self-check failed: {rule.title} must not shift the distribution, but its largest TV "
            f"is {number(tv_max)}.",
        )
    return Check("ok", f"Self-check: {rule.title} shifted nothing (largest TV {number(tv_max)}).")
