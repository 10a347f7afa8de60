"""Runs of servers, from their records: each once, and all of them or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256

from sqlalchemy import select

from mars_core.types import Trace
from storage.runs.comparisons import add_comparison, add_run
from storage.runs.records import new_run
from storage.schema import RunRow, Source
from storage.store import RunStore


@dataclass(frozen=True, slots=True)
class ImportedRun:
    """A run of a served model, which becomes a separate comparison. ``content``: what it was read
    from; runs of the same content are the same run. ``created_at``: aware; None: now."""

    content: str
    trace: Trace
    created_at: datetime | None
    comment: str


def import_runs(store: RunStore, runs: Sequence[ImportedRun]) -> int:
    """Add these runs to ``store`` in one transaction, as its owner's; returns the number of those
    that were not stored. Raises StorageError."""
    with store._write("The records were not imported") as connection:
        unread = {
            sha256(run.content.encode("utf-8", "surrogatepass")).hexdigest()[:32]: run
            for run in runs
        }
        for id_ in [*unread]:
            if connection.execute(select(RunRow.id).where(RunRow.id == id_)).first():
                del unread[id_]
        for id_, run in unread.items():
            created = run.created_at or datetime.now(UTC)
            more = {"id": id_, "created_at": created, "comment": run.comment}
            prompt, owner = run.trace.config.prompt, store.scope.owner
            add_comparison(connection, prompt, Source.SERVER, owner, **more)
            add_run(connection, id_, new_run(run.trace, 0, 0, id_))
    return len(unread)
