"""What a request may read: its sender's own, or what a link shows to whoever has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.requests import Request

from storage import RunStore, StorageError
from ui.kit.address import TOKEN
from ui.services import Services


def store_for(services: Services, request: Request) -> RunStore:
    """Of a route: ``?share=`` names the link. Raises StorageError where it shows nothing any more."""
    own = services.seen_by(request).store
    token = request.query_params.get("share", "")
    return own.through(token) if token else own


def reading(
    services: Services, request: Any, token: object, there: Callable[[RunStore], object]
) -> tuple[RunStore, str]:
    """Of an event: one's own store, where what is asked for is ``there``, else that of the link; and the link's token where it is used.

    ``there`` raises StorageError where it is not. Raises StorageError where the link shows nothing any more.
    """
    own = services.seen_by(request).store
    if not isinstance(token, str) or not TOKEN.fullmatch(token):
        return own, ""
    try:
        there(own)
    except StorageError:
        return own.through(token), token
    return own, ""
