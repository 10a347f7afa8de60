"""Numbers and texts as a reader sees them: the page writes them as every report does."""

from evaluation.format import (
    MINUS,
    MISSING,
    about,
    count,
    displayable,
    duration,
    memory,
    number,
    parameters,
    plural,
    ratio,
    share,
    shorten,
    signless,
    visible,
)
from evaluation.statistics import over

__all__ = [
    "MINUS",
    "MISSING",
    "about",
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
