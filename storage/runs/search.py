"""Search for comparisons: criteria, available filter values, and a table of the results.

Texts are searched in the column ``search``, which is folded when it is written, so that case is
handled equally in all databases and scripts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, exists, func, select, true
from sqlalchemy.orm import InstrumentedAttribute, aliased

from mars_core.types import Status
from storage.connection import Connected
from storage.index import FACET_LENGTH, containing
from storage.runs.listing import rows_of
from storage.schema import NAMELESS, ComparisonRow, Facet, Source
from storage.schema.text import folded
from storage.scope import WhereConditions, check_page

COUNTED = 1000  # maximum number of comparisons that are counted
_SINGLE = (Source.COMPARE, Source.VOTE, Source.SERVER)  # sources without batches


class Sort(StrEnum):
    """Sort keys. Comparisons without a value or name come last in both directions."""

    CREATED = "created"
    NAME = "name"  # ASCII letters without case, then by code points
    TOKENS_PER_S = "tokens_per_s"  # of the best run, as the following ones
    TAU = "tau"
    NEW_TOKENS = "new_tokens"


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
    are more. ``rows``: as documented in RunStore.find; ``unreadable``: how many comparisons of this
    page are damaged and have no row, though ``total`` and ``matching_ids`` count them."""

    total: int
    rows: list[dict[str, Any]]
    more: bool = False
    unreadable: int = 0


@dataclass(frozen=True, slots=True)
class FilterChoices:
    """The available filter values, sorted."""

    rules: tuple[str, ...]
    targets: tuple[str, ...]
    tags: tuple[str, ...]


class Lists(Connected):
    """The comparisons that are not deleted."""

    def count(self) -> int:
        """Return the number of comparisons."""
        with self.read() as connection:
            return _count(
                connection, select(ComparisonRow.id).where(*self._basic(ComparisonRow, Search()))
            )

    def find(self, search: Search) -> SearchPage:
        """Return one page of the matching comparisons. Counts all where that is fast, else up to
        1,000.

        Each is a row by name: ``id``, ``created_at`` (UTC), ``source``, ``tags`` (a tuple),
        ``turns``, ``target`` (of the first lane; empty where there is no run); made
        ``text.readable``, ``name``, ``comment`` and ``prompt`` (its first 280 characters); and, as
        tuples with the first run of every lane: ``run_ids``, ``rules``, ``status``, ``new_tokens``,
        ``tau``, ``tokens_per_s``, ``ttft_s``, ``wall_s``, ``relaxed_share``, ``drafter``,
        ``drafter_model``, ``k``, ``tree_tokens``, ``temperature``, ``seed``.
        """
        with self.read() as connection:
            ids, total, more = self._find(connection, search)
            rows = self.intact(partial(rows_of, connection), "comparison", ids)
            return SearchPage(total, rows, more, len(ids) - len(rows))

    def matching_ids(self, search: Search) -> list[str]:
        """Return the ids of the results of ``find``, in the same order."""
        with self.read() as connection:
            return list(self._find(connection, search)[0])

    def choices(self) -> FilterChoices:
        """Return the rules, targets and tags that can be searched for."""
        with self.read() as connection:
            rules, targets, tags = (
                sorted(connection.scalars(self._values(kind))) for kind in ("rule", "target", "tag")
            )
        return FilterChoices(tuple(rules), tuple(targets), tuple(tags))

    def _find(self, connection: Connection, search: Search) -> tuple[Sequence[str], int, bool]:
        """Return the ids of one page; the number of matches counted; whether there are more."""
        check_page(search.limit, search.offset)
        if connection.dialect.name == "postgresql":  # needed for parameters of unknown type
            connection.exec_driver_sql("SET LOCAL plan_cache_mode = force_custom_plan")
        text, facets = folded(search.text), _facets(search)
        if facets and not text and search.sort is Sort.CREATED:  # in the order of their index
            conditions = [*_is(Facet, *facets.pop(0)), *self._basic(Facet, search)]
            id_, order = Facet.comparison_id, _latest(Facet, search.descending)
        else:
            conditions = self._basic(ComparisonRow, search)
            if text or search.sort is not Sort.CREATED:
                conditions = _unindexed(connection, conditions)
            conditions += containing(connection, text) if text else []
            id_, order = ComparisonRow.id, _order(search)
        matching = select(id_).where(*conditions, *(_has(id_, *facet) for facet in facets))
        ordered = matching.order_by(*order).limit(search.limit).offset(search.offset)
        most = COUNTED + 1 if text or facets else None  # one index counts them all
        total = _count(connection, matching, most)
        ids = connection.scalars(ordered).all()
        return ids, min(total, COUNTED) if most else total, total == most

    def _basic(
        self, table: type[ComparisonRow | Facet], search: Search
    ) -> list[ColumnElement[bool]]:
        """Conditions on columns of both tables: owner, deletion, source and time. A deleted
        comparison has no facets."""
        there = [*self.scope.of(table)]
        there += [ComparisonRow.deleted_at.is_(None)] if table is ComparisonRow else []
        there += [table.source == search.source] if search.source else []
        there += [table.source.in_(_SINGLE)] if search.without_batches else []
        there += [table.created_at >= search.since] if search.since else []
        return there + ([table.created_at < search.until] if search.until else [])

    def _values(self, kind: str) -> Select[str]:
        """Return the values of all facets of one kind: each is looked up as the smallest above the
        previous one."""
        least = select(func.min(Facet.value).label("value")).where(
            Facet.kind == kind, *self.scope.of(Facet)
        )
        values = least.cte("found", recursive=True)
        following = least.where(Facet.value > values.c.value).scalar_subquery()
        values = values.union_all(select(following).where(values.c.value.is_not(None)))
        return select(values.c.value).where(values.c.value.is_not(None))


def _facets(search: Search) -> list[tuple[str, str]]:
    """Kind and value of the wanted facets."""
    wanted = {
        "tag": search.tag,
        "status": search.status.value if search.status else "",
        "target": search.target,
        "rule": search.rule,
    }
    return [(kind, value[:FACET_LENGTH]) for kind, value in wanted.items() if value]


def _is(facet: type[Facet], kind: str, value: str) -> WhereConditions:
    return facet.kind == kind, facet.value == value


def _has(id_: InstrumentedAttribute[str], kind: str, value: str) -> ColumnElement[bool]:
    """Return whether the comparison of this id has a facet."""
    facet = aliased(Facet)
    there = select(1).where(facet.comparison_id == id_, *_is(facet, kind, value))
    return exists(there.correlate(id_.class_))


def _unindexed(
    connection: Connection, conditions: list[ColumnElement[bool]]
) -> list[ColumnElement[bool]]:
    """Return the same conditions without use of an index: SQLite has too few statistics to choose
    one."""
    if connection.dialect.name != "sqlite":
        return conditions
    return [condition.is_(true()) for condition in conditions]


def _count(connection: Connection, statement: Select[Any], most: int | None = None) -> int:
    """Return the number of rows, at most ``most``."""
    return connection.execute(
        select(func.count()).select_from(statement.limit(most).subquery())
    ).scalar_one()


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
    order = [key.desc() if search.descending else key.asc(), *_latest(ComparisonRow)]
    if search.descending != named:  # MISSING_NUMBER and NAMELESS come last by themselves
        return order
    return [key >= NAMELESS if named else key < 0, *order]
