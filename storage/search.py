"""Finding comparisons: what may be asked for, and what there is to ask for. Reads no steps and no tokens; opens no transaction.

Texts are found in the column ``search`` (notes.haystack), which is folded when it is written: so case is the same for
all databases and all scripts, and there are no wildcards to escape.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import pandas as pd
from sqlalchemy import ColumnElement, Connection, FromClause, and_, exists, func, select

from mars_core.types import Status
from storage.listing import Query, check_page, frame, latest_first, rows
from storage.schema import Comparison, Run
from storage.scope import scope_of
from storage.text import decode, encode, folded
from storage.words import Source

BATCHES = (Source.SWEEP, Source.STUDY)  # what a program made, many at a time


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
    """One page of the comparisons found. ``total``: how many there are on all pages. ``frame``: as RunStore.find says."""

    total: int
    frame: pd.DataFrame


@dataclass(frozen=True, slots=True)
class Choices:
    """What there is to filter by, each sorted."""

    rules: tuple[str, ...]
    targets: tuple[str, ...]
    tags: tuple[str, ...]


def find(connection: Connection, search: Search) -> Found:
    check_page(search.limit, search.offset)
    conditions = (*_conditions(search, connection.dialect.name), *scope_of(connection).comparisons())
    every = select(func.count()).select_from(Comparison).where(Comparison.deleted_at.is_(None), *conditions)
    page = _sorted(rows().where(*conditions), search, connection.dialect.name).limit(search.limit).offset(search.offset)
    return Found(connection.execute(every).scalar_one(), frame(connection, page))


def choices(connection: Connection) -> Choices:
    live = and_(Comparison.deleted_at.is_(None), *scope_of(connection).comparisons())
    runs = select(Run.rule, Run.target).join(Comparison, Comparison.id == Run.comparison_id).where(live).distinct()
    used = connection.execute(runs).all()
    tag = _tags(connection.dialect.name)
    tags = connection.execute(select(tag.c.value).select_from(Comparison).join(tag, live).distinct()).scalars()
    return Choices(
        rules=tuple(sorted({row[0] for row in used})),
        targets=tuple(sorted({row[1] for row in used})),
        tags=tuple(sorted(map(decode, tags))),
    )


def _conditions(search: Search, dialect: str) -> list[ColumnElement[bool]]:
    contains = func.instr if dialect == "sqlite" else func.strpos
    tag = _tags(dialect)
    made = Comparison.created_at
    asked: list[tuple[object, Callable[[], ColumnElement[bool]]]] = [
        (search.text, lambda: contains(Comparison.search, folded(search.text)) > 0),
        (search.rule, lambda: _any_run(Run.rule == search.rule)),
        (search.target, lambda: _any_run(Run.target == search.target)),
        (search.status, lambda: _any_run(Run.status == search.status)),
        (search.source, lambda: Comparison.source == search.source),
        (search.without_batches, lambda: Comparison.source.not_in(BATCHES)),
        (search.tag, lambda: exists(select(1).select_from(tag).where(tag.c.value == encode(search.tag)))),
        (search.since, lambda: made >= search.since),
        (search.until, lambda: made < search.until),
    ]
    return [condition() for wanted, condition in asked if wanted]


def _any_run(condition: ColumnElement[bool]) -> ColumnElement[bool]:
    return exists(select(1).where(Run.comparison_id == Comparison.id, condition).correlate(Comparison))


def _tags(dialect: str) -> FromClause:
    """The tags of a comparison as rows with one column, ``value``, as they are spelled in the table."""
    if dialect == "sqlite":
        return func.json_each(Comparison.tags).table_valued("value")
    return func.json_array_elements_text(Comparison.tags).table_valued("value").render_derived()


def _sorted(page: Query, search: Search, dialect: str) -> Query:
    if search.sort is Sort.CREATED:
        return latest_first(page) if search.descending else page.order_by(Comparison.created_at, Comparison.id)
    key = _name(dialect) if search.sort is Sort.NAME else _best(search.sort)
    ordered = page.order_by((key.desc() if search.descending else key.asc()).nulls_last())
    return latest_first(ordered)


def _name(dialect: str) -> ColumnElement[Any]:
    """NULL where there is none. PostgreSQL would sort as its locale does."""
    name = Comparison.name if dialect == "sqlite" else Comparison.name.collate("C")
    return func.nullif(func.lower(name), "")


def _best(number: Sort) -> ColumnElement[Any]:
    best = select(func.max(Run.__table__.c[number.value])).where(Run.comparison_id == Comparison.id)
    return best.correlate(Comparison).scalar_subquery()
