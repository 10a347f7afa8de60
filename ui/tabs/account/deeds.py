"""What a visitor does with what is theirs: look, stop sharing, delete all, take along. Knows no components.

Whose things they are is said by the request alone; nothing that the page sends can name another visitor.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from storage import Counts, RunStore, Shared, StorageError
from ui.kit.format import displayable, shorten
from ui.kit.told import told
from ui.public.visitors import Visitor, browser_of
from ui.services import Services
from ui.tabs.account.values import DONE, FAILED, WORD, SharedRow, Yours, amounts, signed_in, who, yours


def look(place: Services, request: Any) -> Yours:
    """What there is of whoever sends ``request``. ``place``: everybody's."""
    seen = place.seen_by(request)
    try:
        counts, shares = seen.store.counts(), shared_rows(seen.store)
        return yours(seen.visitor, place.retention_days, counts, shares, left(place, seen.visitor, request))
    except StorageError as error:
        return Yours(who(seen.visitor), said=displayable(told(error, public=place.public)), state=FAILED)


def act(place: Services, request: Any, data: Mapping[str, Any]) -> Yours:
    """A deed of the panel and what there is after it."""
    try:
        said, changed = _done(place, request, data)
    except StorageError as error:
        return replace(look(place, request), said=displayable(told(error, public=place.public)), state=FAILED)
    state, mark = DONE if said else "", secrets.token_hex(4) if changed else ""
    return replace(look(place, request), said=said, state=state, changed=mark)


def _done(place: Services, request: Any, data: Mapping[str, Any]) -> tuple[str, bool]:
    """What is said of it, and whether what History shows may have changed."""
    seen = place.seen_by(request)
    match data.get("deed"):
        case "unshare":
            stop_sharing(seen.store, data)
            return "The link does not work any more.", False
        case "delete":
            return delete_all(seen.store, data.get("word")), True
        case "take":
            return take_along(place, seen.visitor, request), True
    return "", False


def stop_sharing(store: RunStore, data: Mapping[str, Any]) -> None:
    """Raises StorageError for what is not the visitor's."""
    store.unshare(read_kind(data.get("kind")), str(data.get("id", "")))


def delete_all(store: RunStore, word: object) -> str:
    """Everything of the store's owner goes for good. Raises StorageError, and where the word is missing."""
    if store.owner is None:
        raise StorageError("On a private page everything is everybody's: delete comparisons one by one in History.")
    if str(word or "").strip().lower() != WORD:
        raise StorageError(f"Nothing was deleted: type {WORD} to confirm.")
    before = store.counts()
    store.delete_everything()
    return f"Deleted for good: {amounts(before, deleted=True)}. What still stands on this page goes when you close or reload it."


def take_along(place: Services, visitor: Visitor, request: Any) -> str:
    """What the browser made becomes the account's. Raises StorageError."""
    browser = _before(visitor, request)
    if browser is None or visitor.owner is None:
        raise StorageError("There is nothing to take along: sign in, in the browser in which it was made.")
    store = place.store.of(browser)
    before = store.counts()
    store.give(browser, visitor.owner)
    return f"Taken along: {amounts(before, deleted=True)}."


def left(place: Services, visitor: Visitor, request: Any) -> Counts | None:
    """What the browser of somebody who signed in made before."""
    browser = _before(visitor, request)
    return None if browser is None else place.store.of(browser).counts()


def _before(visitor: Visitor, request: Any) -> str | None:
    """The owner that the browser of somebody who signed in is by itself. It has shown its cookie, so it may give."""
    browser = browser_of(request) if signed_in(visitor) else None
    return browser.owner if browser is not None and browser.owner != visitor.owner else None


def shared_rows(store: RunStore) -> tuple[SharedRow, ...]:
    """The links that work, as they come."""
    return tuple(
        SharedRow(
            str(each.kind), each.object_id, shorten(each.title or each.object_id[:8], 80), each.created_at.isoformat()
        )
        for each in store.shares()
    )


def read_kind(said: object) -> Shared:
    """Raises StorageError for what cannot be shared."""
    if said not in list(Shared):
        raise StorageError(f"What is shared must be one of {', '.join(Shared)}.")
    return Shared(str(said))
