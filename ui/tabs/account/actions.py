"""What a visitor does with their data: read it, stop sharing, delete all, move it to an account.

Whose things they are is said by the request alone; nothing that the page sends can name another visitor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from evaluation.format import shorten
from storage import Counts, RunStore, StorageError
from ui.kit.errors import error_message
from ui.public.sharing import read_kind
from ui.public.visitors import Visitor, browser_of
from ui.services import Services
from ui.tabs.account.values import DONE, FAILED, WORD, Account, SharedRow, account_of, amounts, signed_in, who


def look(services: Services, request: Any) -> Account:
    """What there is of whoever sends ``request``. ``services``: everybody's."""
    seen = services.seen_by(request)
    try:
        counts, shares = seen.store.counts(), shared_rows(seen.store)
        return account_of(seen.visitor, services.retention_days, counts, shares, left(services, seen.visitor, request))
    except StorageError as error:
        return Account(who(seen.visitor), message=error_message(error, public=services.public), state=FAILED)


def act(services: Services, request: Any, data: Mapping[str, Any]) -> Account:
    """An action of the panel and what there is after it."""
    try:
        message = _act(services, request, data)
    except StorageError as error:
        return replace(look(services, request), message=error_message(error, public=services.public), state=FAILED)
    return replace(look(services, request), message=message, state=DONE if message else "")


def _act(services: Services, request: Any, data: Mapping[str, Any]) -> str:
    """What was done, in one sentence; empty for anything that is not an action."""
    seen = services.seen_by(request)
    match data.get("action"):
        case "unshare":
            seen.store.unshare(read_kind(data.get("kind")), str(data.get("id", "")))
            return "The link does not work any more."
        case "delete":
            return delete_all(seen.store, data.get("word"))
        case "move":
            return move_to_account(services, seen.visitor, request)
    return ""


def delete_all(store: RunStore, word: object) -> str:
    """Everything of the store's owner goes for good. Raises StorageError, and where the word is missing."""
    if store.owner is None:
        raise StorageError("On a private page everything is everybody's: delete comparisons one by one in History.")
    if str(word or "").strip().lower() != WORD:
        raise StorageError(f"Nothing was deleted: type {WORD} to confirm.")
    before = store.counts()
    store.delete_everything()
    return f"Deleted for good: {amounts(before, deleted=True)}. What still stands on this page goes when you close or reload it."


def move_to_account(services: Services, visitor: Visitor, request: Any) -> str:
    """What the browser made becomes the account's. Raises StorageError."""
    browser = _before(visitor, request)
    if browser is None or visitor.owner is None:
        raise StorageError("There is nothing to move: sign in, in the browser in which it was made.")
    store = services.store.of(browser)
    before = store.counts()
    store.give(browser, visitor.owner)
    return f"Moved to your account: {amounts(before, deleted=True)}."


def left(services: Services, visitor: Visitor, request: Any) -> Counts | None:
    """What the browser of somebody who signed in made before."""
    browser = _before(visitor, request)
    return None if browser is None else services.store.of(browser).counts()


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
