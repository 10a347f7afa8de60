"""The panel "Your data" as plain values, and what a visitor does there: read it, stop sharing,
delete all, move it to an account, and export it: all of it as one file, written in constant memory.

The owner comes from the request alone; no value that the page sends can name another visitor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from typing import Any

import gradio as gr
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from display.format import plural, shorten
from storage import RunStore, Share, StorageError, StoreCounts, write_everything
from ui.jobs.services import Services
from ui.kit.events import PRIVATE, event_data
from ui.kit.gradio_compat import check_sign_in
from ui.kit.panel import panel_component, render
from ui.kit.responses import written
from ui.public.visitors import Visitor, browser_of
from ui.sharing import read_kind

WORD = "delete"  # what must be typed before everything goes
DONE, FAILED = "done", "failed"
NAME = "mars-playground-my-data.zip"
NO_COOKIE = (
    "Your browser sent no cookie of this page, so your data cannot be identified; open the page "
    "in a tab of its own, or send a header x-mars-visitor.\n"
)
READERS = "You and whoever runs this page can read it; others only what you share."
FOR_GOOD = "nobody can bring them back, and backups forget them with time."
RUNNING = "What is running now is saved when it ends: stop it first."


@dataclass(frozen=True, slots=True)
class Account:
    """The panel. ``state``: of ``message``, done or failed; ``lasting``: the visitor is known
    beyond this page."""

    who: str
    counts: str = ""
    retention: str = ""
    movable: str = ""  # what the browser made before its visitor signed in
    consequence: str = ""  # of deleting everything
    shares: tuple[Share, ...] = ()  # the links that work
    lasting: bool = False
    anything: bool = False
    message: str = ""
    state: str = ""

    def html(self) -> str:
        return render("tabs/account/panel.html.jinja", account=self, word=WORD)


NOBODY = Account("")  # until it was requested


def look(services: Services, request: Any) -> Account:
    visible = services.for_visitor(request)
    try:
        counts, links = visible.store.counts(), visible.store.shares()
        browser = _before(visible.visitor, request)
        before = None if browser is None else services.store.of(browser).counts()
    except StorageError as error:
        return Account(_who(visible.visitor), message=services.sentence(error), state=FAILED)
    stored, kept = any(astuple(counts)), "It is stored until you delete it."
    if services.retention_days:
        days = plural(services.retention_days, "day")
        kept = f"Everything is removed for good {days} after it was made."
    links_end = (
        f" {plural(counts.shares, 'shared link')} will stop working." if counts.shares else ""
    )
    moves = before is not None and any(astuple(before))
    return Account(
        who=_who(visible.visitor),
        counts=f"Stored: {amounts(counts)}." if stored else "Nothing of yours is stored here.",
        retention=f"{kept} {READERS}",
        movable=f"Before you signed in, this browser stored {amounts(before, deleted=True)}."
        if before and moves
        else "",
        consequence=f"This removes {amounts(counts, deleted=True)} for good: {FOR_GOOD}{links_end} {RUNNING}",
        shares=links,
        lasting=visible.visitor.lasting,
        anything=stored,
    )


def act(services: Services, request: Any, data: Mapping[str, Any]) -> Account:
    try:
        message, state = _act(services, request, data), DONE
    except StorageError as error:
        message, state = services.sentence(error), FAILED
    return replace(look(services, request), message=message, state=state if message else "")


def _act(services: Services, request: Any, data: Mapping[str, Any]) -> str:
    """Act and return what was done in one sentence; empty for anything that is not an action."""
    visible = services.for_visitor(request)
    match data.get("action"):
        case "unshare":
            visible.store.unshare(read_kind(data.get("kind")), str(data.get("id", "")))
            return "The link does not work any more."
        case "delete":
            return _delete_all(visible.store, data.get("word"))
        case "move":
            return _move_to_account(services, visible.visitor, request)
    return ""


def _delete_all(store: RunStore, word: object) -> str:
    """Delete everything of the store's owner for good. Raises StorageError, and where the word is
    missing."""
    if store.owner is None:
        raise StorageError(
            "In private mode all visitors share all runs; delete comparisons one by one in History."
        )
    if str(word or "").strip().lower() != WORD:
        raise StorageError(f"Nothing was deleted: type {WORD} to confirm.")
    before = store.counts()
    store.delete_everything()
    return f"Deleted for good: {amounts(before, deleted=True)}. What this page still shows disappears when you close or reload it."


def _move_to_account(services: Services, visitor: Visitor, request: Any) -> str:
    """Make what the browser made the account's. Raises StorageError."""
    browser = _before(visitor, request)
    if browser is None or visitor.owner is None:
        raise StorageError(
            "There is nothing to move. Sign in with the browser that stored the runs."
        )
    store = services.store.of(browser)
    before = store.counts()
    store.give(browser, visitor.owner)
    return f"Moved to your account: {amounts(before, deleted=True)}."


def _before(visitor: Visitor, request: Any) -> str | None:
    """Return the owner that the browser of somebody who signed in is by itself. It has sent its
    cookie, so it may give."""
    browser = browser_of(request) if _signed_in(visitor) else None
    return browser.owner if browser is not None and browser.owner != visitor.owner else None


def _signed_in(visitor: Visitor) -> bool:
    return (visitor.owner or "").startswith("account:")


def amounts(counts: StoreCounts, *, deleted: bool = False) -> str:
    """Return ``12 comparisons with 24 runs, 1 study``; what there is none of is left out.
    ``deleted``: those that can be brought back too."""
    runs = f" with {plural(counts.runs, 'run')}" if counts.runs else ""
    others = {
        "deleted comparison": counts.deleted if deleted else 0,
        "vote": counts.votes,
        "study": counts.studies,
    }
    more = [plural(many, noun) for noun, many in others.items() if many]
    return ", ".join([f"{plural(counts.comparisons, 'comparison')}{runs}", *more])


def _who(visitor: Visitor) -> str:
    if _signed_in(visitor):
        return f"Signed in as {shorten(visitor.name, 80) or 'an account without a name'}."
    if visitor.lasting:
        return "This browser is known by a random number in a cookie; without this cookie you lose access to your runs."
    return (
        "Your browser does not store cookies of this page, so your runs are lost when you close "
        "it and cannot be downloaded; open the page in a tab of its own to keep them."
    )


def export_file(services: Services, request: Request) -> Response:
    """Write the export of the visitor; on a private page, of everything. Raises StorageError."""
    visible = services.for_visitor(request)
    if not visible.visitor.lasting:
        return PlainTextResponse(NO_COOKIE, 403)
    answer = written(NAME, lambda path: write_everything(visible.store, path))
    answer.headers["Cache-Control"] = "private, no-store"
    return answer


# the link of a panel that is displayed again may have ended
ENDED = "() => { document.dispatchEvent(new CustomEvent('mars:account')); }"
CLOSE = """() => {
  document.dispatchEvent(new CustomEvent('mars:account'));
  if (document.querySelector('#account [data-state="done"]')) document.querySelector('#history-close')?.click();
}"""  # what is open may be gone; closing it reads the list anew


class AccountPanel:
    """Of a public page."""

    def __init__(self, services: Services) -> None:
        self.services = services
        with gr.Column(elem_classes=["mars-panel", "mars-account-panel"]):
            self.panel = panel_component(NOBODY.html(), elem_id="account")
            if services.sign_in:  # on a Space that has it; of an account subject and name are used
                with gr.Row(elem_classes=["mars-account-sign"]):
                    sign_in = "Sign in with Hugging Face", "Sign out ({})"
                    button = gr.LoginButton(*sign_in, size="sm", elem_id="mine-sign-in")
                check_sign_in(button)

    def wire(self, tab: gr.Tab) -> None:
        """Read whenever ``tab`` is chosen."""
        panel = self.panel
        gr.on([tab.select, panel.input], self.show, None, panel, **PRIVATE)
        for action, then in ((panel.select, ENDED), (panel.delete, CLOSE)):
            changed = action(self.change, None, panel, trigger_mode="multiple", **PRIVATE)
            changed.then(None, js=then, **PRIVATE)

    def show(self, request: gr.Request) -> str:
        return look(self.services, request).html()

    def change(self, event: gr.EventData, request: gr.Request) -> str:
        return act(self.services, request, event_data(event)).html()
