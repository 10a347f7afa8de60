"""The words that the database keeps of its own: origin of a comparison, kind of a link, choice of a voter or a judge. Knows no tables."""

from __future__ import annotations

from enum import StrEnum


class Source(StrEnum):
    """What made a comparison."""

    COMPARE = "compare"
    SWEEP = "sweep"
    VOTE = "vote"
    STUDY = "study"


class Shared(StrEnum):
    """What a link can show."""

    COMPARISON = "comparison"
    SWEEP = "sweep"
    STUDY = "study"


class Choice(StrEnum):
    """The answer of a blind vote."""

    LEFT = "left"
    RIGHT = "right"
    TIE = "tie"
    BOTH_BAD = "both_bad"


class Preferred(StrEnum):
    """The answer of a judge who compared a rule's text with its baseline's."""

    RULE = "rule"
    BASELINE = "baseline"
    TIE = "tie"
