"""The words that the database keeps of its own: where a comparison comes from, what a voter chose. Knows no tables."""

from __future__ import annotations

from enum import StrEnum


class Source(StrEnum):
    """What made a comparison."""

    COMPARE = "compare"
    SWEEP = "sweep"
    VOTE = "vote"


class Choice(StrEnum):
    """The answer of a blind vote."""

    LEFT = "left"
    RIGHT = "right"
    TIE = "tie"
    BOTH_BAD = "both_bad"
