"""Lists of comparisons: what may be asked for, what there is to ask for, and a table of what was found, one row each.

Reads no steps and no tokens. Texts are found in the column ``search`` (reindex.haystack), which is folded when it is
written: so case is the same for all databases and all scripts. What few comparisons fit is read at once and sorted; what many fit is
read in the order of an index until the page is full.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import starmap
from typing import Any

import pandas as pd
from sqlalchemy import ColumnElement, Connection, RowMapping, ScalarSelect, Select, exists, func, select, true

from mars_core.types import Status
from storage.connection import Connected
from storage.lookup import batches, check_page
from storage.runs.records import rule_label
from storage.runs.reindex import FACET_LENGTH
from storage.runs.texts import Candidates, candidates, containing
from storage.schema import Comparison, Facet, Run, Source
from storage.schema.columns import SafeText
from storage.schema.runs import NAMELESS
from storage.schema.text import folded, readable
from storage.scope import Linked, Owned

PROMPT_PREVIEW = 280  # characters of the prompt in the table of comparisons
COMPARISONS_A_READ = 500
FEW = 5000  # comparisons that are read at once, to be sorted
COUNTED = 1000  # comparisons that are counted one by one; how many more there are is not said
_BATCHES = (Source.SWEEP, Source.STUDY)  # what a program made, many at a time
_NUMBERS = ("new_tokens", "tau", "tokens_per_s", "ttft_s", "wall_s", "relaxed_share")
_COLUMNS = ["id", "created_at", "prompt", "target", "rules", "status", *_NUMBERS]
_NOTES = ["name", "tags", "comment", "source", "run_ids"]


class Sort(StrEnum):
    """What a list is sorted by. What has no value, or no name, comes last in either direction."""

    CREATED = "created"
    NAME = "name"  # ASCII letters without case, then by code points
    TOKENS_PER_S = "tokens_per_s"  # of the best run, as the others are
    TAU = "tau"
    NEW_TOKENS = "new_tokens"


@dataclass(frozen=True, slots=True)
class Search:
    """What is asked for; empty and None ask for nothing. Each of rule, target and status is that of any run."""

    text: str = ""  # in prompt, name, comment or a tag, without regard to case
    rule: str = ""  # RuleConfig.name
    target: str = ""
    status: Status | None = None
    source: Source | None = None
    without_batches: bool = False  # of sweeps and studies
    tag: str = ""
    since: datetime | None = None  # since <= created_at < until
    until: datetime | None = None
    sort: Sort = Sort.CREATED
    descending: bool = True
    limit: int = 50
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    """One page of the comparisons found. ``total``: how many there are on all pages, ``more``: or even more. ``frame``: as
    RunStore.find says."""

    total: int
    frame: pd.DataFrame
    more: bool = False


@dataclass(frozen=True, slots=True)
class Choices:
    """What there is to filter by, each sorted."""

    rules: tuple[str, ...]
    targets: tuple[str, ...]
    tags: tuple[str, ...]


class Lists(Connected):
    """The comparisons that are not deleted."""

    def count(self) -> int:
        """How many comparisons there are."""
        with self.read() as connection:
            return _count(connection, select(Comparison.id).where(*self._basic(Comparison, Search())))

    def comparisons(self, *, limit: int = 200, offset: int = 0, batches: bool = True) -> pd.DataFrame:
        """One page of the comparisons, latest first, one row each; without ``batches`` none of sweeps and studies.

        Columns: ``id``, ``created_at`` (UTC), ``prompt`` (its first 280 characters, made ``text.readable``), ``target``
        (of the first lane; empty where there is no run); and, each a tuple with one entry a run by lane: ``rules``,
        ``status``, ``new_tokens``, ``tau``, ``tokens_per_s``, ``ttft_s``, ``wall_s``, ``relaxed_share``.
        """
        return self.find(Search(without_batches=not batches, limit=limit, offset=offset)).frame[_COLUMNS]

    def find(self, search: Search) -> Found:
        """One page of the comparisons that were asked for. All are counted where that is quick, else 1,000 of them.

        Columns: those of ``comparisons``, then ``name`` and ``comment`` (made ``text.readable``), ``tags`` (a tuple),
        ``source`` and ``run_ids`` (a tuple with one entry a run by lane).
        """
        with self.read() as connection:
            ids, total, more = self._find(connection, search)
            return Found(total, _frame(connection, ids), more)

    def found_ids(self, search: Search) -> list[str]:
        """The ids alone of what ``find`` finds, in the same order."""
        with self.read() as connection:
            return list(self._find(connection, search)[0])

    def choices(self) -> Choices:
        """The rules, targets and tags that a search may ask for."""
        with self.read() as connection:
            rules, targets, tags = (
                sorted(connection.scalars(self._values(kind))) for kind in ("rule", "target", "tag")
            )
        return Choices(tuple(rules), tuple(targets), tuple(tags))

    def _find(self, connection: Connection, search: Search) -> tuple[Sequence[str], int, bool]:
        """The ids of one page; how many there are in all, or were counted; whether there are more than were counted."""
        check_page(search.limit, search.offset)
        if connection.dialect.name == "postgresql":  # what a value finds is unknown without it
            connection.exec_driver_sql("SET LOCAL plan_cache_mode = force_custom_plan")
        basic, order, text = self._basic(Comparison, search), _order(search), folded(search.text)
        facets = [facet for facet in _facets(search) if facet[1]]
        every, having = select(Comparison.id).where(*basic), [self._having(search, *facet) for facet in facets]
        conditions = [*basic, *starmap(_has, facets), *([containing(connection, text)] if text else [])]
        sorted_ = select(Comparison.id).where(*_unindexed(connection, conditions)).order_by(*order)
        walked = select(Comparison.id).where(*conditions).order_by(*order) if search.sort is Sort.CREATED else sorted_

        def page(statement: Select[str]) -> Sequence[str]:
            return connection.scalars(statement.limit(search.limit).offset(search.offset)).all()

        if not text and not facets:
            return page(walked), _count(connection, every), False
        sources: list[Candidates] = [(Comparison.id, some) for some in (every, *having)]
        sources += filter(None, [candidates(connection, text, FEW) if text else None])
        sizes = connection.execute(select(*(_counted(some, FEW + 1) for _, some in sources))).one()
        fewest, (column, source) = min(zip(sizes, sources, strict=True), key=lambda each: each[0])
        if fewest <= FEW:
            found = connection.scalars(sorted_.where(column.in_(source))).all()
            return found[search.offset : search.offset + search.limit], len(found), False
        if text or len(having) > 1 or isinstance(self.scope, Linked):
            some = select(Comparison.id).where(*_unindexed(connection, conditions))
            counted: int = connection.execute(select(_counted(some, COUNTED + 1))).scalar_one()
            return page(walked), min(counted, COUNTED), counted > COUNTED
        latest = having[0].order_by(*_order(search, Facet))
        return page(latest if search.sort is Sort.CREATED else walked), _count(connection, having[0]), False

    def _basic(self, table: type[Comparison | Facet], search: Search) -> list[ColumnElement[bool]]:
        """What both tables know: whose a comparison is, whether it is there, what made it, and when."""
        there = [*self.scope.of(Comparison), Comparison.deleted_at.is_(None)]
        if table is Facet:
            there = [*self.scope.of(Facet)] if isinstance(self.scope, Owned) else []
        there += [table.source == search.source] if search.source else []
        there += [table.source.not_in(_BATCHES)] if search.without_batches else []
        there += [table.created_at >= search.since] if search.since else []
        return there + ([table.created_at < search.until] if search.until else [])

    def _having(self, search: Search, kind: str, value: str) -> Select[str]:
        """The ids of comparisons with this facet; through a link of others too."""
        facet = (Facet.kind == kind, Facet.value == value[:FACET_LENGTH])
        return select(Facet.comparison_id).where(*facet, *self._basic(Facet, search))

    def _values(self, kind: str) -> Select[str]:
        """The values of all facets of one kind: each is looked up as the least above the one before."""
        if isinstance(self.scope, Linked):
            mine = select(Comparison.id).where(*self._basic(Comparison, Search()))
            return select(Facet.value).where(Facet.kind == kind, Facet.comparison_id.in_(mine)).distinct()
        least = select(func.min(Facet.value).label("value")).where(Facet.kind == kind, *self._basic(Facet, Search()))
        values = least.cte("found", recursive=True)
        following = least.where(Facet.value > values.c.value).scalar_subquery()
        values = values.union_all(select(following).where(values.c.value.is_not(None)))
        return select(values.c.value).where(values.c.value.is_not(None))


def _facets(search: Search) -> tuple[tuple[str, str], ...]:
    status = search.status.value if search.status else ""
    return ("rule", search.rule), ("target", search.target), ("status", status), ("tag", search.tag)


def _has(kind: str, value: str) -> ColumnElement[bool]:
    own = (Facet.comparison_id == Comparison.id, Facet.kind == kind, Facet.value == value[:FACET_LENGTH])
    return exists(select(1).where(*own).correlate(Comparison))


def _unindexed(connection: Connection, conditions: Iterable[ColumnElement[bool]]) -> list[ColumnElement[bool]]:
    """The same conditions, for which SQLite looks up no index: it knows too little of the data to choose one."""
    if connection.dialect.name != "sqlite":
        return list(conditions)
    return [condition.is_(true()) for condition in conditions]


def _counted(statement: Select[Any], most: int) -> ScalarSelect[int]:
    return select(func.count()).select_from(statement.limit(most).subquery()).scalar_subquery()


def _count(connection: Connection, statement: Select[Any]) -> int:
    return connection.execute(select(func.count()).select_from(statement.subquery())).scalar_one()


def _order(search: Search, table: type[Comparison | Facet] = Comparison) -> list[ColumnElement[Any]]:
    """Whatever is equal is latest first. What has no value comes last: in one direction as it is written, in the other it is sorted so."""
    id_ = Facet.comparison_id if table is Facet else Comparison.id
    if search.sort is Sort.CREATED and not search.descending:
        return [table.created_at.asc(), id_.asc()]
    latest: list[ColumnElement[Any]] = [table.created_at.desc(), id_.desc()]
    if search.sort is Sort.CREATED:
        return latest
    key: ColumnElement[Any] = (
        Comparison.__table__.c.name_key if search.sort is Sort.NAME else Comparison.__table__.c[search.sort.value]
    )
    missing: ColumnElement[Any] = key == NAMELESS if search.sort is Sort.NAME else key < 0
    if search.descending:
        return [missing, key.desc(), *latest] if search.sort is Sort.NAME else [key.desc(), *latest]
    return [key.asc(), *latest] if search.sort is Sort.NAME else [missing, key.asc(), *latest]


def _frame(connection: Connection, ids: Sequence[str]) -> pd.DataFrame:
    preview = func.substr(Comparison.prompt, 1, PROMPT_PREVIEW, type_=SafeText).label("prompt")
    own = (
        Comparison.id,
        Comparison.created_at,
        Comparison.name,
        Comparison.tags,
        Comparison.comment,
        Comparison.source,
    )
    found: dict[str, RowMapping] = {}
    for some in batches(ids, COMPARISONS_A_READ):
        rows = connection.execute(select(*own, preview).where(Comparison.id.in_(some))).mappings()
        found |= {row["id"]: row for row in rows}
    comparisons, lanes = [found[id_] for id_ in ids], _lanes(connection, ids)
    data: dict[str, list[Any]] = {name: [row[name] for row in comparisons] for name in ("id", "created_at", "source")}
    for name in ("prompt", "name", "comment"):  # pandas keeps strings as UTF-8
        data[name] = [readable(row[name]) for row in comparisons]
    data["tags"] = [tuple(row["tags"]) for row in comparisons]
    data["target"] = [readable(lane[0]["target"]) if lane else "" for lane in lanes]
    data["rules"] = [tuple(rule_label(run) for run in lane) for lane in lanes]
    for name, column in (("run_ids", "id"), *((name, name) for name in ("status", *_NUMBERS))):
        data[name] = [tuple(run[column] for run in lane) for lane in lanes]
    return pd.DataFrame(data)[[*_COLUMNS, *_NOTES]].astype({"created_at": "datetime64[us, UTC]"})


def _lanes(connection: Connection, comparison_ids: Sequence[str]) -> list[list[RowMapping]]:
    """The runs of each comparison, by lane, then order."""
    found: dict[str, list[RowMapping]] = {comparison_id: [] for comparison_id in comparison_ids}
    names = ("comparison_id", "id", "target", "rule", "rule_parameters", "status", *_NUMBERS)
    statement = select(*(Run.__table__.c[name] for name in names))
    statement = statement.order_by(Run.comparison_id, Run.lane, Run.execution_order)
    for some in batches(comparison_ids, COMPARISONS_A_READ):
        for run in connection.execute(statement.where(Run.comparison_id.in_(some))).mappings():
            found[run["comparison_id"]].append(run)
    return list(found.values())
