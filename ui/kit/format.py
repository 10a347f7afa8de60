"""Numbers and texts as a reader sees them: the page writes them as every report does."""

from evaluation.format import (
    MINUS,
    MISSING,
    count,
    displayable,
    duration,
    memory,
    number,
    over,
    parameters,
    plural,
    ratio,
    share,
    shorten,
    signless,
    visible,
)

__all__ = [
    "MINUS",
    "MISSING",
    "count",
    "displayable",
    "duration",
    "memory",
    "number",
    "over",
    "parameters",
    "plural",
    "ratio",
    "share",
    "shorten",
    "signless",
    "visible",
]
