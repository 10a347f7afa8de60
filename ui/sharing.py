"""Sharing: the panel with the address of a comparison or a study, with which it is also shared,
what a request may read through a link, and the line beside Compare that says what is stored of what
is typed.

In private mode everybody can open every address. In public mode an address opens for its owner
alone, and a link for everybody; a link is displayed once, when it is created: the store has only
its hash.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import gradio as gr
from starlette.requests import Request

from display.format import displayable, plural, shorten
from storage import RunStore, Shared, StorageError
from ui.jobs.services import Services
from ui.kit.address import ID, TOKEN
from ui.kit.events import PRIVATE, event_data
from ui.kit.labels import lane_labels, settings_line
from ui.kit.panel import panel_component, render

T = TypeVar("T")
READ_ONLY = "Shared with you: read only."
# "Your data" lists the links anew
CHANGED = "() => { document.dispatchEvent(new CustomEvent('mars:shared')); }"


@dataclass(frozen=True, slots=True)
class ShareView:
    """What the component shows. Without an ``id`` nothing is displayed. ``public``: links can be made;
    ``token``: of one that was just made; ``ready``: Compare is there once this is."""

    kind: str = ""
    id: str = ""
    public: bool = False
    shared: bool = False
    token: str = ""
    message: str = ""
    ready: bool = False

    @property
    def link(self) -> Mapping[str, str]:
        """What an address names that opens this: with the token, for everybody."""
        return {self.kind: self.id} | ({"share": self.token} if self.token else {})

    def html(self) -> str:
        return render("public/share.html.jinja", share=self)


HIDDEN = ShareView()


def share_component(name: str) -> gr.HTML:
    """``name``: compare, history or quality."""
    return panel_component(
        replace(HIDDEN, ready=name == "compare").html(),
        elem_id=f"{name}-share",
        scripts=("picture.js",),
        elem_classes=["mars-share-block"],
    )


def share_of(services: Services, kind: Shared, object_id: str) -> ShareView:
    """Return what is displayed where this is open; hidden for readers of a link, without an id, and
    of what is not the visitor's."""
    if not services.store.read_only and ID.fullmatch(object_id):
        with suppress(StorageError):
            shared = services.public and services.store.shared(kind, object_id)
            return ShareView(kind, object_id, services.public, shared)
    return HIDDEN


def act(services: Services, data: Mapping[str, Any]) -> ShareView:
    """Handles Share, New link and Stop sharing. ``data`` is untrusted: the store checks the owner
    of the object."""
    kind, object_id = str(data.get("kind", ""))[:20], str(data.get("id", ""))
    token, message, store = "", "", services.store
    if not services.public or not ID.fullmatch(object_id):
        return HIDDEN
    try:
        shared = read_kind(kind)
        if data.get("action") == "share":
            token, message = store.share(shared, object_id), "Shared: copy the link now."
        elif data.get("action") == "unshare":
            store.unshare(shared, object_id)
            message = "The link does not work any more."
        return ShareView(shared, object_id, True, store.shared(shared, object_id), token, message)
    except StorageError as error:
        return ShareView(kind, object_id, True, message=services.sentence(error))


def read_kind(text: object) -> Shared:
    """Raises StorageError for what cannot be shared."""
    if text not in list(Shared):
        raise StorageError(f"What is shared must be one of {', '.join(Shared)}.")
    return Shared(str(text))


def wire_share(services: Services, share: gr.HTML) -> None:
    """Wire what a press does and what becomes of the panel when a link was ended in "Your data"."""

    def press(event: gr.EventData, request: gr.Request) -> str:
        return act(services.for_visitor(request), event_data(event)).html()

    def refresh(event: gr.EventData, request: gr.Request) -> Any:
        """Keep a link that works as it is displayed."""
        data = event_data(event)
        now = act(services.for_visitor(request), {"kind": data.get("kind"), "id": data.get("id")})
        return gr.skip() if now.shared == data.get("shared") else now.html()

    if services.public:
        share.select(press, None, share, trigger_mode="once", **PRIVATE).then(
            None, js=CHANGED, **PRIVATE
        )
        share.input(refresh, None, share, **PRIVATE)


def store_for(services: Services, request: Request) -> RunStore:
    """Return the store of a route: ``?share=`` names the link. Raises StorageError where it shows
    nothing any more."""
    store = services.for_visitor(request).store
    token = request.query_params.get("share", "")
    return store.through(token) if token else store


def reading(store: RunStore, token: object, read: Callable[[RunStore], T]) -> tuple[T, str]:
    """Return what ``read`` reads from the visitor's store, else from what the link shows; and the
    link's token where it is used. Raises StorageError as ``read``, and where the link shows nothing
    any more."""
    if isinstance(token, str) and TOKEN.fullmatch(token):
        with suppress(StorageError):
            return read(store), ""
        return read(store.through(token)), token
    return read(store), ""


def described(services: Services, query: Mapping[str, str]) -> tuple[str, str] | None:
    """Title and description of the comparison that the link in an address shows to everybody."""
    comparison, token = query.get("comparison", ""), query.get("share", "")
    if not ID.fullmatch(comparison) or not TOKEN.fullmatch(token):
        return None
    try:
        stored = services.store.through(token).load(comparison)
    except StorageError:
        return None
    configs = [run.trace.config for run in stored.runs]
    facts = [" | ".join(lane_labels(configs)), *map(settings_line, configs[:1])]
    return shorten(stored.name or stored.turns[0].prompt.text, 80), displayable(" · ".join(facts))


def consent_line(services: Services) -> gr.HTML | None:
    """Return what is stored of what is typed, with a button that opens "Your data"; None on a
    private page, which has no such line."""
    if not services.public:
        return None
    days = services.retention_days  # after which everything is removed; None: never by itself
    html = render(
        "public/consent.html.jinja",
        time=f"for {plural(days, 'day')}" if days else "until you delete them",
    )
    return panel_component(html, elem_id="consent", elem_classes=["mars-consent-block"])
