"""What an error of the store or of a pair says to whom: in public mode no path of this machine, and nothing on whether others have it."""

from __future__ import annotations

import re

_PATH = re.compile(
    r"""(?<![\w.:/])(?:~|[A-Za-z]:)?(?:[/\\][^\s/\\'"()<>,;:]+){2,}[/\\]?|sqlite:\S+|postgresql\S*://[^\s)]+"""
)
_UNKNOWN = re.compile(r"There is no (?:comparison|sweep|study|run|vote) with the id [^\n]{0,80}")
SHAREABLE = ", or it is not yours; its owner can share it."


def told(error: Exception | str, *, public: bool) -> str:
    """The sentence of ``error`` for the page."""
    said = str(error)
    if not public:
        return said
    said = _PATH.sub("…", said)
    return f"{said.rstrip('.')}{SHAREABLE}" if _UNKNOWN.fullmatch(said) else said
