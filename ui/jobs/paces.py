"""How long the latest runs of a target took here, for estimates."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from typing import NamedTuple

from mars_core.types import Status, Trace

LATEST = 20  # runs of a target


class Pace(NamedTuple):
    """Seconds per token that a run may write. ``shortest``: of the run with the least, which may
    have ended early; ``longest``: where no run ends early."""

    runs: int
    shortest: float
    longest: float


class Paces:
    """Of runs that ended by themselves or at their limit, by the name of the target."""

    def __init__(self) -> None:
        self._latest: defaultdict[str, deque[tuple[float, float]]] = defaultdict(
            lambda: deque(maxlen=LATEST)
        )

    def observe(self, trace: Trace) -> None:
        config, summary = trace.config, trace.summary
        if trace.status is Status.COMPLETED and summary.new_tokens and summary.wall_s < math.inf:
            pace = (summary.wall_s / config.max_new_tokens, summary.wall_s / summary.new_tokens)
            self._latest[config.target.name].append(pace)

    def of(self, target: str) -> Pace | None:
        """Return the pace; None before the first run."""
        paces = tuple(self._latest.get(target, ()))
        if not paces:
            return None
        return Pace(len(paces), min(low for low, _ in paces), max(high for _, high in paces))
