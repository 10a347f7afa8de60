"""Search for comparisons: criteria, available filter values, and a table of the results.

Texts are searched in the column ``search``, which is folded when it is written, so that case is
handled equally in all databases and scripts. Few results are read at once and sorted; many are read
in index order until the page is full.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import starmap
from typing import Any

import pandas as pd
from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    Select,
    case,
    exists,
    func,
    select,
    true,
)

from mars_core.types import Status
from storage.connection import Connected
from storage.runs.index import FACET_LENGTH, TRIGRAM, Candidates, candidates, containing
from storage.runs.records import rule_label
from storage.schema import NAMELESS, ComparisonRow, Facet, RunRow, Source
from storage.schema.columns import SafeText
from storage.schema.text import folded, readable
from storage.scope import Linked, Owned, batches, check_page

PROMPT_PREVIEW = 280  # characters of the prompt in the table of comparisons
COMPARISONS_A_READ = 500
_NUMBERS = ("new_tokens", "tau", "tokens_per_s", "ttft_s", "wall_s", "relaxed_share")
_SETTINGS = ("drafter", "drafter_model", "k", "tree_tokens", "temperature", "seed")
COLUMNS = ["id", "created_at", "prompt", "target", "rules", "status", *_NUMBERS]
_NOTES = ["name", "tags", "comment", "source", "run_ids", *_SETTINGS]
_COLUMNS = ("id", "created_at", "name", "tags", "comment", "source")
_OF_RUNS = (
    "comparison_id",
    "lane",
    "id",
    "target",
    "rule",
    "rule_parameters",
    "status",
    *_NUMBERS,
    *_SETTINGS,
)
FEW = 5000  # comparisons that are read at once, to be sorted
COUNTED = 1000  # maximum number of comparisons that are counted
_SINGLE = (Source.COMPARE, Source.VOTE, Source.SERVER)  # sources without batches


class Sort(StrEnum):
    """Sort keys. Comparisons without a value or name come last in both directions."""

    CREATED = "created"
    NAME = "name"  # ASCII letters without case, then by code points
    TOKENS_PER_S = "tokens_per_s"  # of the best run, as the following ones
    TAU = "tau"
    NEW_TOKENS = "new_tokens"


LOG = logging.getLogger("mars.storage")
_UNREADABLE = (
    LookupError,
    TypeError,
    ValueError,
)  # what columns raise for a value that is not theirs


@dataclass(frozen=True, slots=True)
class Search:
    """Search criteria; empty and None match everything. Rule, target and status match if any run
    does."""

    text: str = ""  # in prompt, name, comment or a tag, case-insensitive
    rule: str = ""  # RuleConfig.name
    target: str = ""
    status: Status | None = None
    source: Source | None = None
    without_batches: bool = False  # without studies
    tag: str = ""
    since: datetime | None = None  # since <= created_at < until
    until: datetime | None = None
    sort: Sort = Sort.CREATED
    descending: bool = True
    limit: int = 50
    offset: int = 0


@dataclass(frozen=True, slots=True)
class SearchPage:
    """One page of the comparisons found. ``total``: number on all pages, ``more``: whether there
    are more. ``frame``: as documented in RunStore.find."""

    total: int
    frame: pd.DataFrame
    more: bool = False


@dataclass(frozen=True, slots=True)
class Choices:
    """The available filter values, sorted."""

    rules: tuple[str, ...]
    targets: tuple[str, ...]
    tags: tuple[str, ...]


class Lists(Connected):
    """The comparisons that are not deleted."""

    def count(self) -> int:
        """The number of comparisons."""
        with self.read() as connection:
            return _count(
                connection, select(ComparisonRow.id).where(*self._basic(ComparisonRow, Search()))
            )

    def comparisons(
        self, *, limit: int = 200, offset: int = 0, batches: bool = True
    ) -> pd.DataFrame:
        """One page of the comparisons, latest first, one row each; without ``batches`` none of
        studies.

        Columns: ``id``, ``created_at`` (UTC), ``prompt`` (its first 280 characters, made
        ``text.readable``), ``target`` (of the first lane; empty where there is no run); and, as
        tuples with the first run of every lane: ``rules``, ``status``, ``new_tokens``, ``tau``,
        ``tokens_per_s``, ``ttft_s``, ``wall_s``, ``relaxed_share``.
        """
        return self.find(Search(without_batches=not batches, limit=limit, offset=offset)).frame[
            COLUMNS
        ]

    def find(self, search: Search) -> SearchPage:
        """One page of the matching comparisons. Counts all where that is fast, else up to 1,000.

        Columns: those of ``comparisons``, then ``name`` and ``comment`` (made ``text.readable``),
        ``tags`` (a tuple), ``source``; and, each a tuple with one entry a lane: ``run_ids``,
        ``drafter``, ``drafter_model``, ``k``, ``tree_tokens``, ``temperature``, ``seed``.
        """
        with self.read() as connection:
            ids, total, more = self._find(connection, search)
            try:
                return SearchPage(total, _frame(connection, ids), more)
            except _UNREADABLE:
                return SearchPage(
                    total,
                    _frame(connection, [id_ for id_ in ids if _readable(connection, id_)]),
                    more,
                )

    def found_ids(self, search: Search) -> list[str]:
        """The ids of the results of ``find``, in the same order."""
        with self.read() as connection:
            return list(self._find(connection, search)[0])

    def choices(self) -> Choices:
        """The rules, targets and tags that can be searched for."""
        with self.read() as connection:
            rules, targets, tags = (
                sorted(connection.scalars(self._values(kind))) for kind in ("rule", "target", "tag")
            )
        return Choices(tuple(rules), tuple(targets), tuple(tags))

    def _find(self, connection: Connection, search: Search) -> tuple[Sequence[str], int, bool]:
        """The ids of one page; the number of matches counted; whether there are more."""
        check_page(search.limit, search.offset)
        if connection.dialect.name == "postgresql":  # needed for parameters of unknown type
            connection.exec_driver_sql("SET LOCAL plan_cache_mode = force_custom_plan")
        basic, text = self._basic(ComparisonRow, search), folded(search.text)
        facets = [facet for facet in _facets(search) if facet[1]]
        every, having = (
            select(ComparisonRow.id).where(*basic),
            [self._having(search, *facet) for facet in facets],
        )
        indexed = len(having) == 1 and not text and not isinstance(self.scope, Linked)
        if indexed and search.sort is Sort.CREATED:
            page = (
                having[0]
                .order_by(*_latest(Facet, search.descending))
                .limit(search.limit)
                .offset(search.offset)
            )
            return connection.scalars(page).all(), _count(connection, having[0]), False
        conditions = [
            *basic,
            *starmap(_has, facets),
            *([containing(connection, text)] if text else []),
        ]
        if not text and not facets:
            return _page(connection, conditions, search), _count(connection, every), False
        # No index serves such a text: all are read, but once.
        if connection.dialect.name == "postgresql" and 0 < len(text) < TRIGRAM:
            some = select(ComparisonRow.id).where(*conditions).limit(FEW + 1).subquery()
            ids_if_few = case(
                (func.count() <= FEW, func.array_agg(some.c.id))
            )  # not sent if there are more
            number, ids = connection.execute(
                select(func.count(), ids_if_few).select_from(some)
            ).one()
            if number <= FEW:
                ordered = (
                    select(ComparisonRow.id)
                    .where(ComparisonRow.id.in_(ids or ()))
                    .order_by(*_order(search))
                )
                return (
                    connection.scalars(ordered.limit(search.limit).offset(search.offset)).all(),
                    number,
                    False,
                )
        source: Candidates = (ComparisonRow.id, every)
        fewest = _count(connection, every, FEW + 1)
        if fewest > FEW:
            sources: list[Candidates] = [(ComparisonRow.id, some) for some in having]
            sources += filter(None, [candidates(connection, text, FEW) if text else None])
            sizes = [_count(connection, some, FEW + 1) for _, some in sources]
            fewest, source = min(
                zip(sizes, sources, strict=True), key=lambda each: each[0], default=(fewest, source)
            )
        if fewest <= FEW:
            column, few = source
            ordered = select(ComparisonRow.id).where(
                column.in_(few), *_unindexed(connection, conditions)
            )
            matching = connection.scalars(ordered.order_by(*_order(search))).all()
            return matching[search.offset : search.offset + search.limit], len(matching), False
        if indexed:
            return _page(connection, conditions, search), _count(connection, having[0]), False
        counted = _count(
            connection,
            select(ComparisonRow.id).where(*_unindexed(connection, conditions)),
            COUNTED + 1,
        )
        return _page(connection, conditions, search), min(counted, COUNTED), counted > COUNTED

    def _basic(
        self, table: type[ComparisonRow | Facet], search: Search
    ) -> list[ColumnElement[bool]]:
        """Conditions on columns of both tables: owner, deletion, source and time."""
        there = [*self.scope.of(ComparisonRow), ComparisonRow.deleted_at.is_(None)]
        if table is Facet:
            there = [*self.scope.of(Facet)] if isinstance(self.scope, Owned) else []
        there += [table.source == search.source] if search.source else []
        there += [table.source.in_(_SINGLE)] if search.without_batches else []
        there += [table.created_at >= search.since] if search.since else []
        return there + ([table.created_at < search.until] if search.until else [])

    def _having(self, search: Search, kind: str, value: str) -> Select[str]:
        """The ids of comparisons with this facet, without the restriction to a link."""
        facet = (Facet.kind == kind, Facet.value == value[:FACET_LENGTH])
        return select(Facet.comparison_id).where(*facet, *self._basic(Facet, search))

    def _values(self, kind: str) -> Select[str]:
        """The values of all facets of one kind: each is looked up as the smallest above the
        previous one."""
        if isinstance(self.scope, Linked):
            visible = select(ComparisonRow.id).where(*self._basic(ComparisonRow, Search()))
            return (
                select(Facet.value)
                .where(Facet.kind == kind, Facet.comparison_id.in_(visible))
                .distinct()
            )
        least = select(func.min(Facet.value).label("value")).where(
            Facet.kind == kind, *self._basic(Facet, Search())
        )
        values = least.cte("found", recursive=True)
        following = least.where(Facet.value > values.c.value).scalar_subquery()
        values = values.union_all(select(following).where(values.c.value.is_not(None)))
        return select(values.c.value).where(values.c.value.is_not(None))


def _frame(connection: Connection, ids: Sequence[str]) -> pd.DataFrame:
    """In the order of the ids; columns as ``Lists.find`` says."""
    preview = func.substr(ComparisonRow.prompt, 1, PROMPT_PREVIEW, type_=SafeText).label("prompt")
    query = select(*(ComparisonRow.__table__.c[name] for name in _COLUMNS), preview)
    runs = select(*(RunRow.__table__.c[name] for name in _OF_RUNS))
    runs = runs.order_by(RunRow.comparison_id, RunRow.lane, RunRow.execution_order)
    rows: dict[str, RowMapping] = {}
    first: dict[str, dict[int, RowMapping]] = {id_: {} for id_ in ids}  # run of each lane
    for some in batches(ids, COMPARISONS_A_READ):
        rows |= {
            row["id"]: row
            for row in connection.execute(query.where(ComparisonRow.id.in_(some))).mappings()
        }
        for run in connection.execute(runs.where(RunRow.comparison_id.in_(some))).mappings():
            first[run["comparison_id"]].setdefault(run["lane"], run)
    lanes = [list(each.values()) for each in first.values()]
    data: dict[str, list[Any]] = {
        name: [rows[id_][name] for id_ in ids] for name in ("id", "created_at", "source")
    }
    for name in ("prompt", "name", "comment"):  # pandas keeps strings as UTF-8
        data[name] = [readable(rows[id_][name]) for id_ in ids]
    data["tags"] = [tuple(rows[id_]["tags"]) for id_ in ids]
    data["target"] = [readable(lane[0]["target"]) if lane else "" for lane in lanes]
    data["rules"] = [
        tuple(rule_label(run["rule"], run["rule_parameters"]) for run in lane) for lane in lanes
    ]
    for name, column in (
        ("run_ids", "id"),
        *((name, name) for name in ("status", *_NUMBERS, *_SETTINGS)),
    ):
        data[name] = [tuple(run[column] for run in lane) for lane in lanes]
    return pd.DataFrame(data)[[*COLUMNS, *_NOTES]].astype({"created_at": "datetime64[us, UTC]"})


def _readable(connection: Connection, id_: str) -> bool:
    """Whether a comparison can be listed: a damaged row hides itself and no other."""
    try:
        _frame(connection, [id_])
    except _UNREADABLE as error:
        LOG.warning("The comparison %s cannot be read", id_, exc_info=error)
        return False
    return True


def _facets(search: Search) -> tuple[tuple[str, str], ...]:
    status = search.status.value if search.status else ""
    return ("rule", search.rule), ("target", search.target), ("status", status), ("tag", search.tag)


def _has(kind: str, value: str) -> ColumnElement[bool]:
    conditions = (
        Facet.comparison_id == ComparisonRow.id,
        Facet.kind == kind,
        Facet.value == value[:FACET_LENGTH],
    )
    return exists(select(1).where(*conditions).correlate(ComparisonRow))


def _unindexed(
    connection: Connection, conditions: Iterable[ColumnElement[bool]]
) -> list[ColumnElement[bool]]:
    """The same conditions without use of an index: SQLite has too few statistics to choose one."""
    if connection.dialect.name != "sqlite":
        return list(conditions)
    return [condition.is_(true()) for condition in conditions]


def _count(connection: Connection, statement: Select[Any], most: int | None = None) -> int:
    """The number of rows, at most ``most``."""
    return connection.execute(
        select(func.count()).select_from(statement.limit(most).subquery())
    ).scalar_one()


def _page(
    connection: Connection, conditions: list[ColumnElement[bool]], search: Search
) -> Sequence[str]:
    """The ids of one page, read in the order of an index."""

    def ids(statement: Select[str], before: int) -> Sequence[str]:
        return connection.scalars(statement.limit(search.limit).offset(before)).all()

    if search.sort is Sort.CREATED:
        return ids(
            select(ComparisonRow.id).where(*conditions).order_by(*_order(search)), search.offset
        )
    missing, *order = _order(search)
    there = select(ComparisonRow.id).where(*_unindexed(connection, conditions)).order_by(*order)
    if search.descending != (
        search.sort is Sort.NAME
    ):  # MISSING_NUMBER and NAMELESS come last by themselves
        return ids(there, search.offset)
    valued = there.where(~missing)
    page = ids(valued, search.offset)
    if len(page) == search.limit:
        return page
    others = ids(
        there.where(missing), 0 if page else max(0, search.offset - _count(connection, valued))
    )
    return [*page, *others][: search.limit]


def _latest(
    table: type[ComparisonRow | Facet], descending: bool = True
) -> list[ColumnElement[Any]]:
    columns = (table.created_at, Facet.comparison_id if table is Facet else ComparisonRow.id)
    return [column.desc() if descending else column.asc() for column in columns]


def _order(search: Search) -> list[ColumnElement[Any]]:
    """Missing values last, then by value; ties by latest first."""
    if search.sort is Sort.CREATED:
        return _latest(ComparisonRow, search.descending)
    named = search.sort is Sort.NAME
    key: ColumnElement[Any] = ComparisonRow.__table__.c["name_key" if named else search.sort.value]
    missing = key >= NAMELESS if named else key < 0
    return [missing, key.desc() if search.descending else key.asc(), *_latest(ComparisonRow)]
