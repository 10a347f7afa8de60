"""The visitor of a request: the owner whose runs it may read and to whom new runs belong. Stores
nothing; returns secrets of visitors only as hashes."""

from __future__ import annotations

import math
import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

COOKIE, HEADER = "mars_visitor", "x-mars-visitor"  # of a browser; of a program
_SECRET = re.compile("[A-Za-z0-9_-]{22,128}")
LONGEST_SESSION = 256  # characters
# MCP tools reach the queue through one client of the server for all users.
_SHARED = ("x-gradio-user", "mcp")


@dataclass(frozen=True, slots=True)
class Visitor:
    """``owner``: the owner whose runs are read and written; None: all runs are read, and new ones
    have no owner (private mode). ``session``: one open page or client. ``name``: of who signed in.
    ``lasting``: the owner outlives the page."""

    owner: str | None = None
    session: str = ""
    name: str = ""
    lasting: bool = True


ANYBODY = Visitor()


def visitor_of(request: Any, *, public: bool, sign_in: bool = False) -> Visitor:
    """Return the visitor who sends ``request`` (gr.Request, Starlette's, or None for a call without
    one). In public mode the owner is the first of: the account that signed in, the browser's
    cookie, the program's header, the open page. Without any of these it is a random one that cannot
    be used again. ``sign_in``: Gradio's session is signed with a secret only then, and is ignored
    otherwise."""
    session = _session(request)
    if not public:
        return Visitor(None, session)
    raw = (
        getattr(request, "request", None) or request
    )  # Starlette's own, where it is gradio's around it
    account = _account(raw) if sign_in else None
    if account is not None:
        return Visitor(_owner("account", f"hf:{account[0]}"), session, account[1])
    shared = _mapping(raw, "headers").get(_SHARED[0]) == _SHARED[1]
    page = session if session and not shared else secrets.token_hex(16)
    return browser_of(request) or Visitor(_owner("page", page), session, lasting=False)


def browser_of(request: Any) -> Visitor | None:
    """Return the visitor by cookie or header alone, ignoring accounts; None where neither is sent."""
    raw = getattr(request, "request", None) or request
    secret = secret_of(_mapping(raw, "cookies"), _mapping(raw, "headers"))
    return Visitor(browser_owner(secret), _session(request)) if secret else None


def _session(request: Any) -> str:
    return str(getattr(request, "session_hash", None) or "")[:LONGEST_SESSION]


def browser_owner(secret: str) -> str:
    """Return the owner of the runs of a browser or program with this secret."""
    return _owner("browser", secret)


def secret_of(cookies: Mapping[str, Any], headers: Mapping[str, Any]) -> str:
    """Return the secret that a browser or a program sends; empty where it sends none, or one that
    cannot be one."""
    for secret in (cookies.get(COOKIE), headers.get(HEADER)):
        if isinstance(secret, str) and _SECRET.fullmatch(secret):
            return secret
    return ""


def session_key(cookies: Mapping[str, Any], headers: Mapping[str, Any]) -> str:
    """Return the key under which the requests of one open page belong together: the browser's
    owner, ``mcp``, or ``page`` without a secret."""
    if headers.get(_SHARED[0]) == _SHARED[1]:
        return "mcp"
    secret = secret_of(cookies, headers)
    return browser_owner(secret) if secret else "page"


def _owner(kind: str, secret: str) -> str:
    return f"{kind}:{sha256(secret.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def _account(raw: Any) -> tuple[str, str] | None:
    """Subject and name of the Hugging Face account, from the session that Gradio signs; None if not
    signed in."""
    try:
        info = raw.scope["session"]["oauth_info"]
        user, expires = info["userinfo"], info.get("expires_at", math.inf)
        subject, name = user["sub"], user.get("preferred_username") or user.get("name")
    except (AttributeError, KeyError, TypeError):
        return None
    known = (
        isinstance(subject, str)
        and subject
        and not (isinstance(expires, int | float) and expires < time.time())
    )
    return (subject, str(name or "")[:80]) if known else None


def _mapping(raw: Any, name: str) -> Mapping[str, Any]:
    attribute = getattr(raw, name, None)
    return attribute if isinstance(attribute, Mapping) else {}
