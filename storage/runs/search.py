"""Lists of comparisons: what may be asked for, what there is to ask for, and a table of what was found, one row each.

Reads no steps and no tokens. Texts are found in the column ``search`` (comparisons.haystack), which is folded when it is
written: so case is the same for all databases and all scripts, and there are no wildcards to escape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import pandas as pd
from sqlalchemy import ColumnElement, Connection, FromClause, RowMapping, and_, exists, func, select

from mars_core.types import Status
from storage.connection import Connected
from storage.lookup import batches, check_page
from storage.runs.records import rule_label
from storage.schema import Comparison, Run, Source
from storage.schema.columns import SafeText
from storage.schema.text import decode, encode, folded, readable

PROMPT_PREVIEW = 280  # characters of the prompt in the table of comparisons
COMPARISONS_A_READ = 500
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
    """One page of the comparisons found. ``total``: how many there are on all pages. ``frame``: as RunStore.find says."""

    total: int
    frame: pd.DataFrame


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
            return self._total(connection, Search())

    def comparisons(self, *, limit: int = 200, offset: int = 0, batches: bool = True) -> pd.DataFrame:
        """One page of the comparisons, latest first, one row each; without ``batches`` none of sweeps and studies.

        Columns: ``id``, ``created_at`` (UTC), ``prompt`` (its first 280 characters, made ``text.readable``), ``target``
        (of the first lane; empty where there is no run); and, each a tuple with one entry a run by lane: ``rules``,
        ``status``, ``new_tokens``, ``tau``, ``tokens_per_s``, ``ttft_s``, ``wall_s``, ``relaxed_share``.
        """
        with self.read() as connection:
            return self._page(connection, Search(without_batches=not batches, limit=limit, offset=offset))[_COLUMNS]

    def find(self, search: Search) -> Found:
        """One page of the comparisons that were asked for.

        Columns: those of ``comparisons``, then ``name`` and ``comment`` (made ``text.readable``), ``tags`` (a tuple),
        ``source`` and ``run_ids`` (a tuple with one entry a run by lane).
        """
        with self.read() as connection:
            return Found(self._total(connection, search), self._page(connection, search))

    def choices(self) -> Choices:
        """The rules, targets and tags that a search may ask for."""
        live = and_(Comparison.deleted_at.is_(None), *self.scope.of(Comparison))
        with self.read() as connection:
            runs = select(Run.rule, Run.target).join(Comparison, Comparison.id == Run.comparison_id).where(live)
            used = connection.execute(runs.distinct()).all()
            tag = _tags(connection.dialect.name)
            tags = connection.scalars(select(tag.c.value).select_from(Comparison).join(tag, live).distinct()).all()
        rules, targets = (tuple(sorted({row[place] for row in used})) for place in (0, 1))
        return Choices(rules, targets, tuple(sorted(map(decode, tags))))

    def _total(self, connection: Connection, search: Search) -> int:
        every = select(func.count()).select_from(Comparison).where(*self._conditions(connection, search))
        return connection.execute(every).scalar_one()

    def _page(self, connection: Connection, search: Search) -> pd.DataFrame:
        check_page(search.limit, search.offset)
        preview = func.substr(Comparison.prompt, 1, PROMPT_PREVIEW, type_=SafeText).label("prompt")
        notes = (Comparison.name, Comparison.tags, Comparison.comment, Comparison.source)
        page = select(Comparison.id, Comparison.created_at, preview, *notes)
        page = page.where(*self._conditions(connection, search)).order_by(*_order(search, connection.dialect.name))
        return _frame(connection, connection.execute(page.limit(search.limit).offset(search.offset)).mappings().all())

    def _conditions(self, connection: Connection, search: Search) -> list[ColumnElement[bool]]:
        dialect, made = connection.dialect.name, Comparison.created_at
        contains = func.instr if dialect == "sqlite" else func.strpos
        tag = _tags(dialect)
        asked: list[tuple[object, Callable[[], ColumnElement[bool]]]] = [
            (search.text, lambda: contains(Comparison.search, folded(search.text)) > 0),
            (search.rule, lambda: _any_run(Run.rule == search.rule)),
            (search.target, lambda: _any_run(Run.target == search.target)),
            (search.status, lambda: _any_run(Run.status == search.status)),
            (search.source, lambda: Comparison.source == search.source),
            (search.without_batches, lambda: Comparison.source.not_in(_BATCHES)),
            (search.tag, lambda: exists(select(1).select_from(tag).where(tag.c.value == encode(search.tag)))),
            (search.since, lambda: made >= search.since),
            (search.until, lambda: made < search.until),
        ]
        there = (Comparison.deleted_at.is_(None), *self.scope.of(Comparison))
        return [*there, *(condition() for wanted, condition in asked if wanted)]


def _any_run(condition: ColumnElement[bool]) -> ColumnElement[bool]:
    return exists(select(1).where(Run.comparison_id == Comparison.id, condition).correlate(Comparison))


def _tags(dialect: str) -> FromClause:
    """The tags of a comparison as rows with one column, ``value``, as they are spelled in the table."""
    if dialect == "sqlite":
        return func.json_each(Comparison.tags).table_valued("value")
    return func.json_array_elements_text(Comparison.tags).table_valued("value").render_derived()


def _order(search: Search, dialect: str) -> list[ColumnElement[Any]]:
    """PostgreSQL would sort names as its locale does; a name that is not there is NULL."""
    latest: list[ColumnElement[Any]] = [Comparison.created_at.desc(), Comparison.id.desc()]
    if search.sort is Sort.CREATED:
        return latest if search.descending else [Comparison.created_at.asc(), Comparison.id.asc()]
    key: ColumnElement[Any]
    if search.sort is Sort.NAME:
        name = Comparison.name if dialect == "sqlite" else Comparison.name.collate("C")
        key = func.nullif(func.lower(name), "")
    else:
        best = select(func.max(Run.__table__.c[search.sort.value])).where(Run.comparison_id == Comparison.id)
        key = best.correlate(Comparison).scalar_subquery()
    return [(key.desc() if search.descending else key.asc()).nulls_last(), *latest]


def _frame(connection: Connection, comparisons: Sequence[RowMapping]) -> pd.DataFrame:
    lanes = _lanes(connection, [row["id"] for row in comparisons])
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
