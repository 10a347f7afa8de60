"""Rows of comparisons and runs in the order of the exports, a few at a time, each time in a
separate transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from sqlalchemy import Select, select, type_coerce
from sqlalchemy.types import NullType

from mars_core.types import ShiftKind
from storage.runs.records import QUESTION
from storage.schema import ComparisonRow, RunRow
from storage.scope import Table, WhereConditions, batches, check_id, live, unknown
from storage.store import RunStore

COMPARISONS_A_READ = 50
_RENAMED: dict[str, Any] = {
    "comparison_id": ComparisonRow.id,
    "run_id": RunRow.id,
    "created_at": RunRow.created_at,
    "prompt": QUESTION,
}
TV_KIND = "tv_kind"  # from the environment of the run
Query = Select[*tuple[Any, ...]]


def runs_of(store: RunStore, comparisons: list[str], *names: str) -> list[dict[str, Any]]:
    """Return these columns of the runs of these comparisons, in their order."""
    read = partial(_runs_of, store, names)
    return store.intact(read, "comparison", comparisons)


def _runs_of(store: RunStore, names: Sequence[str], page: list[str]) -> list[dict[str, Any]]:
    known = {
        column.name: column for table in (ComparisonRow, RunRow) for column in table.__table__.c
    } | _RENAMED
    known[TV_KIND] = known["environment"]
    named = [known[name].label(name) for name in names]
    statement = select(*named).join(ComparisonRow, ComparisonRow.id == RunRow.comparison_id)
    there = (*store.scope.of(ComparisonRow), RunRow.comparison_id.in_(page))
    ordered = statement.with_only_columns(RunRow.id, RunRow.comparison_id).where(*there)
    ids = _fetch(store, ordered.order_by(RunRow.lane, RunRow.execution_order))

    def read(some: list[str]) -> list[dict[str, Any]]:
        rows = {
            row.run_id: dict(row._mapping)
            for row in _fetch(store, statement.where(RunRow.id.in_(some)))
        }
        for row in rows.values() if TV_KIND in names else ():
            row[TV_KIND] = ShiftKind.recorded(row[TV_KIND]).value
            row["new_tokens"] = int(row["new_tokens"])  # SQLite may have anything there
        return [rows[id_] for id_ in some if id_ in rows]

    of_page = [id_ for id_, of in sorted(ids, key=lambda row: page.index(row.comparison_id))]
    return store.intact(read, "run", of_page)


def pages_of(store: RunStore, wanted: Sequence[str] | None) -> Iterator[list[str]]:
    """Return the ids of a few comparisons at a time."""
    if wanted is not None:
        return map(list, batches(wanted, COMPARISONS_A_READ))
    return ids_in_order(store, ComparisonRow, live(store.scope), COMPARISONS_A_READ)


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


def checked_ids(store: RunStore, comparison_ids: Iterable[str] | None) -> list[str] | None:
    if comparison_ids is None:
        return None
    wanted = list(dict.fromkeys(comparison_ids))
    for comparison_id in wanted:
        check_id(comparison_id)
    there = select(ComparisonRow.id).where(*live(store.scope))
    for some in batches(wanted):
        known = {id_ for (id_,) in _fetch(store, there.where(ComparisonRow.id.in_(some)))}
        if missing := [comparison_id for comparison_id in some if comparison_id not in known]:
            raise unknown(missing[0])
    return wanted


def _fetch(store: RunStore, statement: Query) -> Sequence[Any]:
    with store.read() as connection:
        return connection.execute(statement).all()
