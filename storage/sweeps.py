"""Sweeps of earlier releases, to be read: this one stores a sweep as a study. Opens no transaction."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, RowMapping, select

from mars_core.types import Status
from storage.records import check_id, unknown
from storage.schema import Sweep
from storage.scope import scope_of


@dataclass(frozen=True, slots=True)
class StoredSweep:
    """A sweep as it was saved last. ``status`` is cancelled unless it was completed or failed."""

    id: str
    created_at: datetime
    status: Status
    plan: dict[str, Any]
    results: list[dict[str, Any]]


def check_sweep(connection: Connection, sweep_id: str) -> None:
    """Raises StorageError where there is none of this id."""
    check_id(sweep_id, "sweep")
    there = select(Sweep.id).where(Sweep.id == sweep_id, *scope_of(connection).sweeps())
    if connection.execute(there).one_or_none() is None:
        raise unknown(sweep_id, "sweep")


def load_sweep(connection: Connection, sweep_id: str) -> StoredSweep:
    check_sweep(connection, sweep_id)
    return _stored(connection.execute(select(Sweep.__table__).where(Sweep.id == sweep_id)).mappings().one())


def latest_sweeps(connection: Connection, limit: int) -> tuple[StoredSweep, ...]:
    statement = select(Sweep.__table__).where(*scope_of(connection).sweeps())
    statement = statement.order_by(Sweep.created_at.desc(), Sweep.id.desc()).limit(limit)
    return tuple(_stored(row) for row in connection.execute(statement).mappings())


def _stored(row: RowMapping) -> StoredSweep:
    return StoredSweep(row["id"], row["created_at"], row["status"], row["plan"], row["results"])
