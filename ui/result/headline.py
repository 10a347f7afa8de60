"""The three numbers of every run beside the leftmost one, live and of runs that ended. No gradio."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from evaluation.statistics import over
from mars_core.types import UNKNOWN, Outcome, Trace
from ui.token_view.tiles import LaneCounts, counts_of


class PassesBar(NamedTuple):
    """Target passes of a run, and what part of the most that is."""

    name: str
    passes: float  # nan: not known
    part: float


class Headline(NamedTuple):
    """``link``: lane and position of the first relaxed token. ``tau`` and ``base_tau``: tokens per
    target pass. What is not known is nan, a number of tokens UNKNOWN."""

    bars: tuple[PassesBar, ...]
    tau: float
    base_tau: float
    relaxed: int
    base_relaxed: int
    tokens: int
    link: tuple[int, int] | None = None


def headlines(
    names: Sequence[str],
    traces: Mapping[int, Trace],
    live: Mapping[int, LaneCounts] = MappingProxyType({}),
) -> tuple[Headline, ...]:
    """One for every lane after the leftmost; the only lane has one of its own. ``live``: of runs
    that have not ended."""
    counts = {lane: counts_of(trace) for lane, trace in traces.items()} | dict(live)
    lanes = [counts.get(lane, LaneCounts()) for lane in range(len(names))]
    passes = [float(each.steps) if each.steps > 0 else math.nan for each in lanes]
    most = max((each for each in passes if not math.isnan(each)), default=math.nan)
    bars = [PassesBar(name, each, each / most) for name, each in zip(names, passes, strict=True)]

    def headline(lane: int) -> Headline:
        run, base = lanes[lane], lanes[0]
        position = _first_relaxed(traces[lane]) if lane in traces else None
        return Headline(
            tuple(bars[at] for at in dict.fromkeys((0, lane))),
            _tau(run),
            _tau(base) if lane else math.nan,
            run.relaxed if run.steps else UNKNOWN,
            base.relaxed if lane else 0,
            run.tokens,
            None if position is None else (lane, position),
        )

    return tuple(map(headline, range(1 if len(names) > 1 else 0, len(names))))


def _tau(counts: LaneCounts) -> float:
    return counts.tau if counts.steps == UNKNOWN else over(counts.tokens, counts.steps)


def _first_relaxed(trace: Trace) -> int | None:
    return next(
        (token.position for token in trace.tokens if token.outcome is Outcome.RELAXED), None
    )
