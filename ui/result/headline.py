"""The three numbers of every run beside the leftmost one, live and of runs that ended. No gradio."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from mars_core.types import Outcome, Trace
from ui.token_view.tiles import LaneCounts, counts_of


class Headline(NamedTuple):
    """``runs``: name and numbers of the leftmost run and of the one in ``lane``, or of that alone;
    ``relaxed_at``: position of its first relaxed token."""

    lane: int
    runs: tuple[tuple[str, LaneCounts], ...]
    relaxed_at: int | None


def headlines(
    names: Sequence[str],
    traces: Mapping[int, Trace],
    live: Mapping[int, LaneCounts] = MappingProxyType({}),
) -> tuple[Headline, ...]:
    """Return one for every lane after the leftmost; the only lane has one of its own. ``live``: of
    runs that have not ended."""
    counts = {lane: counts_of(trace) for lane, trace in traces.items()} | dict(live)
    lanes = range(1 if len(names) > 1 else 0, len(names))
    return tuple(
        Headline(
            lane,
            tuple((names[at], counts.get(at, LaneCounts())) for at in sorted({0, lane})),
            _first_relaxed(traces[lane]) if lane in traces else None,
        )
        for lane in lanes
    )


def _first_relaxed(trace: Trace) -> int | None:
    return next(
        (token.position for token in trace.tokens if token.outcome is Outcome.RELAXED), None
    )
