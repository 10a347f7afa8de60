"""Sweeps in the database: what was planned and what has come of it so far. Knows neither's form; opens no transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, RowMapping, insert, select, update

from mars_core.types import Status
from storage.records import check_id, new_id, unknown
from storage.schema import Sweep
from storage.scope import scope_of


@dataclass(frozen=True, slots=True)
class StoredSweep:
    """A sweep as it was last updated. ``status`` is cancelled until it is completed: a killed process leaves the truth."""

    id: str
    created_at: datetime
    status: Status
    plan: dict[str, Any]
    results: list[dict[str, Any]]


def add_sweep(connection: Connection, plan: Mapping[str, Any]) -> str:
    row = {"id": new_id(), "created_at": datetime.now(UTC), "status": Status.CANCELLED, "plan": plan, "results": []}
    row["owner"] = scope_of(connection).owner
    connection.execute(insert(Sweep), row)
    return str(row["id"])


def check_sweep(connection: Connection, sweep_id: str) -> None:
    """Raises StorageError where there is none of this id."""
    check_id(sweep_id, "sweep")
    there = select(Sweep.id).where(Sweep.id == sweep_id, *scope_of(connection).sweeps())
    if connection.execute(there).one_or_none() is None:
        raise unknown(sweep_id, "sweep")


def update_sweep(connection: Connection, sweep_id: str, status: Status, results: Sequence[Mapping[str, Any]]) -> None:
    check_sweep(connection, sweep_id)
    values = {"status": status, "results": list(results)}
    connection.execute(update(Sweep).where(Sweep.id == sweep_id).values(values))


def load_sweep(connection: Connection, sweep_id: str) -> StoredSweep:
    check_id(sweep_id, "sweep")
    statement = select(Sweep.__table__).where(Sweep.id == sweep_id, *scope_of(connection).sweeps())
    row = connection.execute(statement).mappings().one_or_none()
    if row is None:
        raise unknown(sweep_id, "sweep")
    return _stored(row)


def latest_sweeps(connection: Connection, limit: int) -> tuple[StoredSweep, ...]:
    statement = select(Sweep.__table__).where(*scope_of(connection).sweeps())
    statement = statement.order_by(Sweep.created_at.desc(), Sweep.id.desc()).limit(limit)
    return tuple(_stored(row) for row in connection.execute(statement).mappings())


def _stored(row: RowMapping) -> StoredSweep:
    return StoredSweep(row["id"], row["created_at"], row["status"], row["plan"], row["results"])
