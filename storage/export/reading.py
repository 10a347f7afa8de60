"""Rows of comparisons and runs in the order of the exports, a few at a time, each time in a
separate transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import Select, select

from mars_core.types import ShiftKind
from storage.schema import ComparisonRow, RunRow
from storage.scope import Table, WhereConditions, batches, check_id, live, unknown
from storage.store import RunStore

COMPARISONS_A_READ = 50
_RENAMED = {"comparison_id": ComparisonRow.id, "run_id": RunRow.id, "created_at": RunRow.created_at}
TV_KIND = "tv_kind"  # from the environment of the run
Query = Select[*tuple[Any, ...]]


def runs_of(store: RunStore, page: list[str], *names: str) -> list[dict[str, Any]]:
    """These columns of the runs of these comparisons, in their order."""
    known = {
        column.name: column for table in (ComparisonRow, RunRow) for column in table.__table__.c
    } | _RENAMED
    known[TV_KIND] = known["environment"]
    named = [known[name].label(name) for name in names]
    statement = select(*named).join(ComparisonRow, ComparisonRow.id == RunRow.comparison_id)
    statement = statement.where(*store.scope.of(ComparisonRow), RunRow.comparison_id.in_(page))
    statement = statement.order_by(RunRow.lane, RunRow.execution_order)
    rows = [dict(row._mapping) for row in _fetch(store, statement)]
    for row in rows if TV_KIND in names else ():
        row[TV_KIND] = ShiftKind.recorded(row[TV_KIND]).value
    return sorted(rows, key=lambda row: page.index(row["comparison_id"]))


def pages_of(store: RunStore, wanted: Sequence[str] | None) -> Iterator[list[str]]:
    """The ids of a few comparisons at a time."""
    if wanted is not None:
        return map(list, batches(wanted, COMPARISONS_A_READ))
    columns = (ComparisonRow.created_at, ComparisonRow.id)
    pages = in_order(store, ComparisonRow, columns, live(store.scope), COMPARISONS_A_READ)
    return ([row.id for row in page] for page in pages)


def in_order(
    store: RunStore, table: Table, columns: Iterable[Any], which: WhereConditions, size: int
) -> Iterator[Sequence[Any]]:
    """Rows of ``table`` in order of creation, ``size`` at a time; ``columns`` include id and
    created_at."""
    statement = select(*columns).where(*which).order_by(table.created_at, table.id).limit(size)
    page = _fetch(store, statement)
    while page:
        yield page
        at, last = page[-1].created_at, page[-1].id
        later = (table.created_at >= at) & ((table.created_at > at) | (table.id > last))
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
