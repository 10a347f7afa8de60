"""Sweeps as earlier releases stored them: a row of their own table, which is only read now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import insert, update

from mars_core.types import Status
from storage import RunStore
from storage.schema import Comparison, Sweep
from storage.scope import new_id


def add_old_sweep(
    store: RunStore, plan: Mapping[str, Any], results: Sequence[Mapping[str, Any]], status: Status = Status.CANCELLED
) -> str:
    """It belongs to the owner of ``store``."""
    row = {"id": new_id(), "created_at": datetime.now(UTC), "status": status, "plan": plan, "results": list(results)}
    with store._write("The sweep was not saved") as connection:
        connection.execute(insert(Sweep), row | {"owner": store.scope.owner})
    return str(row["id"])


def belongs_to_sweep(store: RunStore, comparison_id: str, sweep_id: str) -> None:
    with store._write("The comparison was not changed") as connection:
        connection.execute(update(Comparison).where(Comparison.id == comparison_id).values(sweep_id=sweep_id))
