"""Sharing what is open: a comparison, a sweep, a study. A link is shown once, when it is made; the store keeps its hash alone.

One component a place; its value says what is open there. Private pages share nothing: there every address is everybody's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import gradio as gr

from storage import RunStore, Shared, StorageError
from ui.kit.address import ID
from ui.kit.assets import asset, to_json
from ui.kit.format import displayable
from ui.kit.told import told
from ui.services import Services
from ui.tabs.account.deeds import read_kind

PRIVATE: Mapping[str, Any] = {"api_visibility": "private", "show_progress": "hidden", "queue": False}


@dataclass(frozen=True, slots=True)
class Share:
    """The component's value. Without an ``id`` nothing is shown. ``token``: of a link that was just made."""

    kind: str = ""
    id: str = ""
    shared: bool = False
    token: str = ""
    said: str = ""

    def json(self) -> str:
        return to_json(asdict(self))


HIDDEN = Share()


def share_component(name: str) -> gr.HTML:
    """``name``: history, sweep or quality."""
    return gr.HTML(
        value=HIDDEN.json(),
        html_template=asset("share.html"),
        js_on_load=asset("share.js"),
        apply_default_css=False,
        elem_id=f"{name}-share",
        elem_classes=["mars-share-block"],
        scope=name,
    )


def share_json(store: RunStore, kind: Shared, object_id: str, *, public: bool) -> str:
    """The value where this is open. ``store``: the visitor's. Hidden on a private page, for readers of a link, and without an id."""
    return opened(store, kind, object_id, public=public).json()


def opened(store: RunStore, kind: Shared, object_id: str, *, public: bool) -> Share:
    if not public or store.read_only or not ID.fullmatch(object_id):
        return HIDDEN
    try:
        return Share(str(kind), object_id, store.shared(kind, object_id))
    except StorageError:
        return HIDDEN


def act(place: Services, data: Mapping[str, Any]) -> Share:
    """A press on Share, New link or Stop sharing. What the page says is hostile: the store knows whose the thing is."""
    kind, object_id = str(data.get("kind", ""))[:20], str(data.get("id", ""))
    if not place.public or not ID.fullmatch(object_id):
        return HIDDEN
    try:
        shared = read_kind(kind)
        if data.get("deed") == "share":
            return Share(shared, object_id, True, place.store.share(shared, object_id))
        if data.get("deed") == "unshare":
            place.store.unshare(shared, object_id)
        return Share(shared, object_id, place.store.shared(shared, object_id))
    except StorageError as error:
        return Share(kind, object_id, said=displayable(told(error, public=True)))


def wire_share(place: Services, share: gr.HTML) -> None:
    """What a press does."""

    def deed(event: gr.EventData, request: gr.Request) -> str:
        return act(place.seen_by(request), event._data if isinstance(event._data, Mapping) else {}).json()

    if place.public:
        share.select(deed, None, share, trigger_mode="once", **PRIVATE)
