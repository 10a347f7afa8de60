"""The page's address (URL query): tab, open comparison, compared runs, search. It restores the
view. Its names and what they open are defined here alone.

The browser's half is assets/address.js: it reports what the address says when the page opens or the
visitor goes back, and writes into it what a tab shows. Everything in an address is hostile: what
cannot be a value is left out. No name is one of ``GRADIO_NAMES``, which Gradio reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, date, datetime, time, timedelta, timezone
from typing import Any
from urllib.parse import urlencode

import gradio as gr

from display.sources import to_json
from mars_core.types import Status
from storage import Search, Sort, Source
from ui.kit.assets import asset
from ui.kit.events import LATEST, PRIVATE, event_data
from ui.kit.panel import stamp

FIRST = "compare"  # the tab of an address without one
BY_MODEL = "model"  # the latest of every model
SORTS: Mapping[str, tuple[Sort, bool, str]] = {
    "": (Sort.CREATED, True, "Latest first"),
    "oldest": (Sort.CREATED, False, "Oldest first"),
    "speed": (Sort.TOKENS_PER_S, True, "Fastest run first"),
    "tau": (Sort.TAU, True, "Highest τ first"),
    "tokens": (Sort.NEW_TOKENS, True, "Longest first"),
    "name": (Sort.NAME, False, "By name"),
    BY_MODEL: (Sort.CREATED, True, "By model"),
}  # name → column, descending, title
EVERYTHING = "all"  # source: studies too
SOURCES = (*(source.value for source in Source), EVERYTHING)
LONGEST = 200  # characters of a search field
MOST_NAMED = 50  # runs that an address may name
TAB = re.compile("[a-z]{1,20}")
ID = re.compile("[0-9a-f]{32}")
TOKEN = re.compile("[A-Za-z0-9_-]{32,128}")
SEARCH = ("text", "rule", "target", "status", "source", "tag", "since", "until")
_HISTORY = ("comparison", "runs", *SEARCH, "sort", "list_page", "share")
# The tab that shows what an address names, where it names no tab; the first name that it has
# decides.
_OPENS = {"study": "quality", "share": "history", "comparison": FIRST, "turn": FIRST}


def _among(known: Iterable[str]) -> Callable[[str], str]:
    return lambda text: text if text in known else ""


def _matching(pattern: re.Pattern[str]) -> Callable[[str], str]:
    return lambda text: text if pattern.fullmatch(text) else ""


def _cut(text: str) -> str:
    return text[:LONGEST]


def _runs(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part for part in text.split(",") if ID.fullmatch(part)))[:MOST_NAMED]


def _date(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        return ""


def _integer(text: str, default: int, low: int, high: int) -> int:
    return min(high, max(low, int(text))) if re.fullmatch(r"-?[0-9]{1,6}", text) else default


def _read_by(read: Callable[[str], Any], default: Any = "") -> Any:
    """Declare a field of an address by how it is read from text."""
    return field(default=default, metadata={"read": read})


@dataclass(frozen=True, slots=True)
class Address:
    """A view of the page. ``since`` and ``until`` are ISO dates in the visitor's zone;
    ``list_page`` counts from 1, as ``turn``, whose 0 is the last of a comparison. ``share``: the
    token of a link, through which what is named here is read. ``zone``: minutes by which the
    visitor's clock is behind UTC, as a browser gives them; never part of the address."""

    tab: str = _read_by(_matching(TAB))
    study: str = _read_by(_matching(ID))
    comparison: str = _read_by(_matching(ID))
    turn: int = _read_by(lambda text: _integer(text, 0, 0, 10**6), 0)
    runs: tuple[str, ...] = _read_by(_runs, ())
    text: str = _read_by(_cut)
    rule: str = _read_by(_cut)
    target: str = _read_by(_cut)
    status: str = _read_by(_among([status.value for status in Status]))
    source: str = _read_by(_among(SOURCES))
    tag: str = _read_by(_cut)
    since: str = _read_by(_date)
    until: str = _read_by(_date)
    sort: str = _read_by(_among(SORTS))
    list_page: int = _read_by(lambda text: _integer(text, 1, 1, 10**6), 1)
    share: str = _read_by(_matching(TOKEN))
    zone: int = _read_by(lambda text: _integer(text, 0, -900, 900), 0)

    @property
    def searching(self) -> bool:
        return any(getattr(self, name) for name in SEARCH)


def read_address(parameters: Mapping[str, object]) -> Address:
    """Reads an address from untrusted strings; invalid values are replaced by the defaults."""
    return Address(
        **{
            f.name: f.metadata["read"](str(parameters.get(f.name) or "").strip())
            for f in fields(Address)
        }
    )


def without_search(address: Address) -> Address:
    empty: dict[str, Any] = dict.fromkeys(SEARCH, "")
    return replace(address, list_page=1, **empty)


def to_search(address: Address, *, limit: int, offset: int) -> Search:
    """Return the search of the store; dates are days in the visitor's time zone."""
    sort, descending, _ = SORTS[address.sort]
    return Search(
        **{name: getattr(address, name) for name in ("text", "rule", "target", "tag")},
        status=Status(address.status) if address.status else None,
        source=Source(address.source) if address.source not in ("", EVERYTHING) else None,
        without_batches=not address.source,
        since=_midnight(address.since, address.zone),
        until=_end(address.until, address.zone),
        sort=sort,
        descending=descending,
        limit=limit,
        offset=offset,
    )


def _midnight(day: str, zone: int) -> datetime | None:
    if not day:
        return None
    local = datetime.combine(date.fromisoformat(day), time(), timezone(timedelta(minutes=-zone)))
    return local.astimezone(UTC) if 1 < local.year < 9999 else None


def _end(day: str, zone: int) -> datetime | None:
    begin = _midnight(day, zone)
    return None if begin is None else begin + timedelta(days=1) - timedelta(microseconds=1)


def history_parameters(address: Address) -> dict[str, str]:
    """Return the query parameters of History, all of them; empty where unset."""
    texts = {name: getattr(address, name) for name in _HISTORY if name not in ("runs", "list_page")}
    return texts | {
        "runs": ",".join(address.runs),
        "list_page": str(address.list_page) if address.list_page > 1 else "",
    }


def search_query(address: Address) -> str:
    """Return the fields of the search alone, as a query of the downloads; empty where nothing is
    searched."""
    texts = {name: getattr(address, name) for name in SEARCH if getattr(address, name)}
    texts |= {"zone": str(address.zone)} if address.since or address.until else {}
    return f"?{urlencode(texts, safe=',', errors='replace')}" if texts else ""


def address_component(settings: Iterable[str] = ()) -> gr.HTML:
    """Build the keeper of the address, which shows nothing. Its value is a patch of what ``of``, a
    tab, shows. Its events carry all names of the address with the tab that it opens, and every
    ``rule``: ``select`` where that tab is to be chosen, ``submit`` and ``input`` where Compare and
    History, whose components are there, are to show something. ``settings``: names of the fields
    that Compare reads. It stands outside of the tabs, so that it runs from the start."""
    opens = _OPENS | dict.fromkeys(settings, FIRST)
    opens |= dict.fromkeys((name for name in _HISTORY if name not in opens), "history")
    return gr.HTML(
        to_json({}),
        html_template="<span hidden></span>",
        js_on_load=asset("address.js"),
        apply_default_css=False,
        elem_id="address",
        opens=list(opens.items()),
        first=FIRST,
    )


def address_patch(of: str, names: Mapping[str, str | list[str]]) -> str:
    """Return the value with which the address says what the tab ``of`` shows."""
    return to_json({"at": stamp(), "of": of, **names})


def wire_tabs(address: gr.HTML, tabs: gr.Tabs, each: Mapping[str, gr.Tab]) -> None:
    """Have the address choose the tab, and write a chosen tab into the address. ``each``: the
    tabs by id."""

    def choose(event: gr.EventData) -> Any:
        tab = read_address(event_data(event)).tab
        return gr.update(selected=tab if tab in each else FIRST)

    address.select(choose, None, tabs, **LATEST)
    for name, tab in each.items():
        patch = to_json({"detail": {"tab": name}})
        tab.select(
            None,
            js=f"() => {{ document.dispatchEvent(new CustomEvent('mars:address', {patch})); }}",
            **PRIVATE,
        )
