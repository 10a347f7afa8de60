"""The search bar of History. Which rules, models and tags it offers comes from the store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import gradio as gr

from mars_core.types import Status
from storage import Choices
from ui.kit.address import EVERYTHING, SEARCH, SORTS, Address, read_address
from ui.kit.labels import rule_label
from ui.kit.panel import panel_component, render

NO_CHOICES = Choices((), (), ())
_SOURCES = {
    "": "All but sweeps and studies",
    EVERYTHING: "Everything",
    "compare": "Compare",
    "sweep": "Sweeps",
    "vote": "Votes",
    "study": "Studies",
}
Options = list[tuple[str, str]]  # value and text


def searched(address: Address, fields: Mapping[str, Any]) -> Address:
    """The address after the visitor changed the search; its list begins at the first page again."""
    asked = read_address(fields)
    return replace(address, page=1, zone=asked.zone, **{name: getattr(asked, name) for name in (*SEARCH, "sort")})


def search_html(address: Address, choices: Choices) -> str:
    """The fields with their values, and what each of the choosers offers."""
    choosers: list[tuple[str, str, Options]] = [
        ("rule", "Rule", _options("Any rule", choices.rules, address.rule, rule_label)),
        ("target", "Target", _options("Any model", choices.targets, address.target)),
        ("status", "Status", _options("Any status", [status.value for status in Status], address.status)),
        ("source", "From", list(_SOURCES.items())),
        ("tag", "Tag", _options("Any tag", choices.tags, address.tag)),
    ]
    sorts = [(name, title) for name, (_, _, title) in SORTS.items()]
    return render("tabs/history/search.html.jinja", address=address, choosers=choosers, sorts=sorts)


def _options(every: str, known: Iterable[str], chosen: str, title: Any = str) -> Options:
    """What is chosen is offered even where nothing has it any more."""
    missing = [chosen] if chosen and chosen not in known else []
    return [("", every), *((value, title(value)) for value in (*missing, *known))]


def search_component() -> gr.HTML:
    return panel_component(search_html(Address(), NO_CHOICES), elem_id="history-search")
