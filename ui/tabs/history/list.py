"""The list of History: one page of saved comparisons, and the search bar above it, whose rules,
models and tags come from the store."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from display.format import count, plural, ratio
from display.names import stored_rule_label
from evaluation.statistics import over
from mars_core.rules import PLAIN
from mars_core.types import Status
from storage import FilterChoices, RunStore, SearchPage
from ui.kit.address import BY_MODEL, EVERYTHING, SEARCH, SORTS, Address, read_address, to_search
from ui.kit.labels import drafter_title, model_title, setting
from ui.kit.panel import render

PAGE = 20  # comparisons on one page of the list
MOST_MODELS, OF_A_MODEL = 20, 5  # models in a list by model, and comparisons of each
NOTHING = (
    "No comparison is saved yet. Press Compare on the first tab; what it writes is saved here."
)
NO_MATCH = "No saved comparison fits the search."
NO_CHOICES = FilterChoices((), (), ())
_SOURCES = [
    ("", "All but studies"),
    (EVERYTHING, "Everything"),
    ("compare", "Compare"),
    ("vote", "Votes"),
    ("study", "Studies"),
    ("server", "Records of servers"),
]
SelectOptions = list[tuple[str, str]]  # value and text


@dataclass(frozen=True, slots=True)
class Notice:
    """A line above the list, until the next action. ``undo``: the comparison that a button brings
    back; ``refusal``: new at every action that was refused, so that the boxes of the list show
    again what holds."""

    text: str = ""
    undo: str = ""
    refusal: str = ""


SILENT = Notice()


class HistoryRow(NamedTuple):
    """A comparison in the list. ``stored``: as ``RunStore.find`` has it; ``model``, ``amount``: the
    head of the first row of a model in a list by model."""

    stored: Mapping[str, Any]
    models: str
    settings: tuple[str, ...]
    ratio: str
    status: str
    model: str = ""
    amount: str = ""


class ComparisonPage(NamedTuple):
    """One page of the list: what was found, and the address whose ``list_page`` this is, one of
    ``pages`` or more. ``message`` says why there is no row."""

    found: SearchPage = SearchPage(0, [])
    address: Address = Address()
    rows: tuple[HistoryRow, ...] = ()
    pages: int = 1
    message: str = ""

    @property
    def position(self) -> str:
        found, page = self.found, f"Page {self.address.list_page}"
        if not found.total:
            return ""
        amount = plural(found.total, "comparison") + " found" * self.address.searching
        if found.unreadable:
            amount += f"; {count(found.unreadable)} of this page cannot be read"
        if found.more:
            return f"{page}, more than {amount}"
        return f"{page} of {count(self.pages)}, {amount}"

    def html(self, notice: Notice = SILENT) -> str:
        return render("tabs/history/list.html.jinja", listing=self, notice=notice)


def listing(store: RunStore, address: Address = Address()) -> ComparisonPage:  # noqa: B008  (a frozen value)
    """Return the page nearest to the one requested. Raises StorageError."""
    if address.sort == BY_MODEL and not address.target:
        return _by_model(store, replace(address, list_page=1))
    page = address.list_page
    found = store.find(to_search(address, limit=PAGE, offset=(page - 1) * PAGE))
    pages, here = max(1, math.ceil(found.total / PAGE)), len(found.rows) + found.unreadable
    if found.more and here:
        pages = max(pages, page + (here == PAGE))
    if page > pages:
        return listing(store, replace(address, list_page=pages))
    return _page(found, address, map(_row, found.rows), pages)


def _by_model(store: RunStore, address: Address) -> ComparisonPage:
    """Return the latest comparisons of every model, under its name; a model's list has the others."""
    rows, total, unreadable = list[HistoryRow](), 0, 0
    models = store.choices().targets
    for target in models[:MOST_MODELS]:
        found = store.find(to_search(replace(address, target=target), limit=OF_A_MODEL, offset=0))
        of_model, amount = [*map(_row, found.rows)], plural(found.total, "comparison")
        rows += [row._replace(model=target, amount=amount) for row in of_model[:1]] + of_model[1:]
        total, unreadable = total + found.total, unreadable + found.unreadable
    return _page(SearchPage(total, [], len(models) > MOST_MODELS, unreadable), address, rows)


def _page(
    found: SearchPage, address: Address, rows: Iterable[HistoryRow], pages: int = 1
) -> ComparisonPage:
    message = "" if found.total else NO_MATCH if address.searching else NOTHING
    return ComparisonPage(found, address, tuple(rows), pages, message)


def _row(record: Mapping[str, Any]) -> HistoryRow:
    taus, states = record["tau"], [str(status) for status in record["status"]]
    status = next(
        (state for state in states if state != "completed"), "completed" if states else "cancelled"
    )
    completed_pair = len(taus) == 2 and status == "completed"
    return HistoryRow(
        record,
        models=_models(record),
        settings=_settings(record),
        ratio=f"τ {ratio(over(taus[1], taus[0]))}" if completed_pair else "",
        status=status,
    )


def _models(record: Mapping[str, Any]) -> str:
    names = dict.fromkeys([*filter(None, record["drafter_model"]), record["target"]])
    return " → ".join(map(model_title, names))


def _settings(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what the runs were made with, each value once: drafters, temperature, seed."""
    drafts = [
        f"{drafter_title(kind)}, {f'tree of {tree:g}' if tree else f'K {k:g}' if k else 'K –'}"
        for kind, k, tree in zip(record["drafter"], record["k"], record["tree_tokens"], strict=True)
        if kind != PLAIN
    ]
    numbers = [f"T {setting(value)}" for value in record["temperature"]]
    numbers += [f"seed {setting(value)}" for value in record["seed"]]
    return tuple(dict.fromkeys([*drafts, *numbers]))


def searched(address: Address, fields: Mapping[str, Any]) -> Address:
    """Return the address after the visitor changed the search; its list begins at the first page
    again."""
    requested = read_address(fields)
    return replace(
        address,
        list_page=1,
        zone=requested.zone,
        **{name: getattr(requested, name) for name in (*SEARCH, "sort")},
    )


def search_html(address: Address, choices: FilterChoices) -> str:
    """Return the fields with their values, and what each of the choosers offers."""
    choosers: list[tuple[str, str, SelectOptions]] = [
        ("rule", "Rule", _options("Any rule", choices.rules, address.rule, stored_rule_label)),
        ("target", "Target", _options("Any model", choices.targets, address.target)),
        (
            "status",
            "Status",
            _options("Any status", [status.value for status in Status], address.status),
        ),
        ("source", "From", _SOURCES),
        ("tag", "Tag", _options("Any tag", choices.tags, address.tag)),
    ]
    sorts = [(name, title) for name, (_, _, title) in SORTS.items()]
    return render("tabs/history/search.html.jinja", address=address, choosers=choosers, sorts=sorts)


def _options(every: str, known: Iterable[str], chosen: str, title: Any = str) -> SelectOptions:
    """Return the options, with what is chosen even where nothing has it any more."""
    missing = [chosen] if chosen and chosen not in known else []
    return [("", every), *((value, title(value)) for value in (*missing, *known))]
