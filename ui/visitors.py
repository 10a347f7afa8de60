"""Who asks: whose runs a request may read and to whom new ones belong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

EVERYBODY = ""  # the owner of what was made in private mode


@dataclass(frozen=True, slots=True)
class Visitor:
    """``owner``: whose runs are read and written; None: all are read, and new ones are nobody's (private mode).
    ``session``: one open page or client. ``name``: of who signed in. ``lasting``: the owner outlives the page."""

    owner: str | None = None
    session: str = ""
    name: str = ""
    lasting: bool = True


ANYBODY = Visitor()


def visitor_of(request: Any, *, public: bool) -> Visitor:
    """Whoever sends ``request``: gr.Request, Starlette's, or None for a call without one."""
    session = str(getattr(request, "session_hash", None) or "")
    return Visitor(session, session, lasting=False) if public else Visitor(None, session)
