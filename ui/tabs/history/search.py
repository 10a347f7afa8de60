"""The search of History: what an address asks of the store, and the bar with its fields. Which values there are comes from the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import UTC, date, datetime, time, timedelta, timezone
from typing import Any

import gradio as gr

from mars_core.types import Status
from storage import Choices, Search, Sort, Source
from ui.kit.address import EVERYTHING, SORTS, Address, read_address
from ui.kit.assets import asset, to_json
from ui.kit.format import displayable
from ui.tabs.history.names import rule_words

NO_CHOICES = Choices((), (), ())
_FIELDS = ("text", "rule", "target", "status", "source", "tag", "since", "until", "sort")
_SORTS: Mapping[str, tuple[Sort, bool, str]] = {
    "": (Sort.CREATED, True, "Latest first"),
    "oldest": (Sort.CREATED, False, "Oldest first"),
    "speed": (Sort.TOKENS_PER_S, True, "Fastest run first"),
    "tau": (Sort.TAU, True, "Highest τ first"),
    "tokens": (Sort.NEW_TOKENS, True, "Longest first"),
    "name": (Sort.NAME, False, "By name"),
}
_SOURCES = {
    "": "All but sweeps and studies",
    EVERYTHING: "Everything",
    "compare": "Compare",
    "sweep": "Sweeps",
    "vote": "Votes",
    "study": "Studies",
}


def to_search(address: Address, *, limit: int, offset: int) -> Search:
    """What the store is asked for; the dates are days of the visitor's own clock."""
    sort, descending, _ = _SORTS[address.sort if address.sort in SORTS[1:] else ""]
    return Search(
        text=address.text,
        rule=address.rule,
        target=address.target,
        status=Status(address.status) if address.status else None,
        source=Source(address.source) if address.source not in ("", EVERYTHING) else None,
        without_batches=not address.source,
        tag=address.tag,
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


def searched(address: Address, fields: Mapping[str, Any]) -> Address:
    """The address after the visitor changed the search; its list begins at the first page again."""
    asked = read_address(fields)
    return replace(address, page=1, zone=asked.zone, **{name: getattr(asked, name) for name in _FIELDS})


def search_json(address: Address, choices: Choices) -> str:
    """The value of the bar: its fields and what each of the choosers offers."""
    offered = {
        "rule": _options("Any rule", {rule: rule_words(rule) for rule in choices.rules}, address.rule),
        "target": _options("Any model", {name: name for name in choices.targets}, address.target),
        "status": _options("Any status", {status.value: status.value for status in Status}, address.status),
        "source": [[value, words] for value, words in _SOURCES.items()],
        "tag": _options("Any tag", {tag: tag for tag in choices.tags}, address.tag),
        "sort": [[value, words] for value, (_, _, words) in _SORTS.items()],
    }
    fields = {name: value for name, value in asdict(address).items() if name in _FIELDS}
    return to_json({"fields": fields, "options": offered, "searching": address.searching})


def _options(every: str, known: Mapping[str, str], chosen: str) -> list[list[str]]:
    """Value and words of each option; what is chosen is offered even where nothing has it any more."""
    values = known if not chosen or chosen in known else {chosen: chosen, **known}
    return [["", every], *([value, displayable(words)] for value, words in values.items())]


def search_component() -> gr.HTML:
    return gr.HTML(
        value=search_json(Address(), NO_CHOICES),
        html_template=asset("history_search.html"),
        js_on_load=asset("history_search.js"),
        apply_default_css=False,
        elem_id="history-search",
    )
