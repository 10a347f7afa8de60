"""Speed against what it costs: three measures of the cost, and which settings no other beats. Knows no page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from evaluation.sweeps.pareto import front
from evaluation.sweeps.points import Point


class Cost(StrEnum):
    """What a faster text may cost."""

    DIFFER = "differ"  # share of texts that differ from strict's
    TV = "tv"  # mean total variation a token
    SCORE_LOSS = "score_loss"  # share of right answers under strict − under the rule


def cost_of(point: Point, cost: Cost) -> float:
    """Less is better; nan where it was not measured."""
    match cost:
        case Cost.DIFFER:
            return point.differ.value
        case Cost.TV:
            return point.tv
        case Cost.SCORE_LOSS:
            return point.score_loss


def optimal(points: Sequence[Point], cost: Cost) -> tuple[int, ...]:
    """Indices of the points that no other beats in speed-up and cost, by rising cost."""
    return front([(cost_of(point, cost), point.speedup.value) for point in points])


@dataclass(frozen=True, slots=True)
class Published:
    """Speeds of the paper over plain decoding: EAGLE-3 as published, and with MARS; τ of both."""

    target: str
    strict: float
    strict_tau: float
    mars: float
    mars_tau: float

    @property
    def speedup(self) -> float:
        """Of MARS over EAGLE-3: what a sweep's speed-up over strict corresponds to."""
        return self.mars / self.strict


PUBLISHED_SETTING = "T = 1, K = 7, arXiv 2601.15498"
PUBLISHED: tuple[Published, ...] = (
    Published("Vicuna-13B", 3.12, 5.64, 3.74, 7.20),
    Published("Llama-3.1-8B", 3.24, 4.82, 4.00, 6.61),
    Published("Llama-3.3-70B", 4.40, 5.66, 4.76, 6.39),
    Published("Qwen3-8B", 2.96, 4.41, 3.23, 5.22),
    Published("Qwen3-32B", 3.01, 4.21, 3.49, 5.23),
    Published("Qwen3-235B-A22B", 2.95, 4.14, 3.42, 5.14),
)
