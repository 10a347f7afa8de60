"""Rows of comparisons and runs in the order of the exports, a few at a time, each time in a
separate transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, groupby
from typing import Any

from sqlalchemy import Select, select, type_coerce
from sqlalchemy.types import NullType

from mars_core.types import ShiftKind
from storage.runs.records import QUESTION
from storage.schema import ComparisonRow, RunRow, RunTrace
from storage.scope import Table, WhereConditions, batches, check_id, live, unknown
from storage.store import RunStore

COMPARISONS_A_READ = 50
TV_KIND = "tv_kind"  # from the environment of the run
_TABLES = (ComparisonRow, RunTrace, RunRow)
_KNOWN: dict[str, Any] = {
    **{column.name: column for table in _TABLES for column in table.__table__.c},
    "comparison_id": ComparisonRow.id,
    "run_id": RunRow.id,
    "prompt": QUESTION,
    TV_KIND: RunRow.__table__.c.environment,
}
Query = Select[*tuple[Any, ...]]


def runs_of(store: RunStore, run_ids: Sequence[str], *names: str) -> list[dict[str, Any]]:
    """Return these columns of runs that exist, in the order of their ids."""
    named = [_KNOWN[name].label(name) for name in names]
    runs = select(*named).select_from(RunRow).join(ComparisonRow).outerjoin(RunTrace)
    there = (*store.scope.of(ComparisonRow), RunRow.id.in_(run_ids))
    rows = {row.run_id: dict(row._mapping) for row in _fetch(store, runs.where(*there))}
    for row in rows.values() if TV_KIND in names else ():
        row[TV_KIND] = ShiftKind.recorded(row[TV_KIND]).value
    return [rows[id_] for id_ in run_ids if id_ in rows]


def run_ids_of(store: RunStore, comparisons: list[str], tokens: int) -> Iterator[list[str]]:
    """Yield the runs of these comparisons in their order, by lane, about so many tokens together."""
    columns = (RunRow.id, RunRow.comparison_id, RunRow.__table__.c.new_tokens)
    runs = select(*columns).join(ComparisonRow)
    there = (*store.scope.of(ComparisonRow), RunRow.comparison_id.in_(comparisons))
    rows = _fetch(store, runs.where(*there).order_by(RunRow.lane, RunRow.execution_order))
    rows = sorted(rows, key=lambda row: comparisons.index(row.comparison_id))
    # SQLite may have anything where a number should be
    counts = [row.new_tokens if isinstance(row.new_tokens, int) else 0 for row in rows]
    groups = groupby(zip(accumulate(counts), rows, strict=True), lambda each: each[0] // tokens)
    for _, group in groups:
        yield [row.id for _, row in group]


def pages_of(store: RunStore, comparison_ids: Iterable[str] | None) -> Iterator[list[str]]:
    """Return the ids of all comparisons, or of these, a few at a time. Raises StorageError for an
    unknown id."""
    if comparison_ids is None:
        return ids_in_order(store, ComparisonRow, live(store.scope), COMPARISONS_A_READ)
    wanted = list(dict.fromkeys(comparison_ids))
    for comparison_id in wanted:
        check_id(comparison_id)
    there = select(ComparisonRow.id).where(*live(store.scope))
    for some in batches(wanted):
        known = {id_ for (id_,) in _fetch(store, there.where(ComparisonRow.id.in_(some)))}
        if missing := [comparison_id for comparison_id in some if comparison_id not in known]:
            raise unknown(missing[0])
    return map(list, batches(wanted, COMPARISONS_A_READ))


def ids_in_order(
    store: RunStore, table: Table, which: WhereConditions, size: int
) -> Iterator[list[str]]:
    """Yield the ids alone, which a damaged row has too; its time is compared as it is stored."""
    at = type_coerce(table.created_at, NullType())
    statement = select(table.id, at.label("at")).where(*which).order_by(at, table.id).limit(size)
    page = _fetch(store, statement)
    while page:
        yield [row.id for row in page]
        last = page[-1]
        if isinstance(last.at, str) and not last.at.isascii():  # as are all times after it
            return
        later = (at >= last.at) & ((at > last.at) | (table.id > last.id))
        page = _fetch(store, statement.where(later))


def _fetch(store: RunStore, statement: Query) -> Sequence[Any]:
    with store.read() as connection:
        return connection.execute(statement).all()
