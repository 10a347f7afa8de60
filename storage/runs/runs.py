"""Runs by their ids: without steps and tokens, with them, or what one number of every step was."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, RowMapping, select

from mars_core.types import RunConfig, Status, StopReason, Summary, Trace
from storage.connection import Connected
from storage.runs.records import OF_PROMPT, TRACE, read_flat, read_trace
from storage.schema import ComparisonRow, RunRow, RunTrace
from storage.schema.trace import CONFIG, SUMMARY
from storage.scope import batches, check_id, unknown

TRACES_A_READ = 50
_NOT_IN_RECORDS = ("prompt_ids", "given")  # long columns that only traces need


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run without its steps and tokens. ``created_at``: when it was saved; ``name``: its
    comparison's."""

    id: str
    comparison_id: str
    lane: int
    created_at: datetime
    status: Status
    stop_reason: StopReason
    error: str
    name: str
    config: RunConfig
    summary: Summary
    text: str


class Runs(Connected):
    """For ``records`` the runs of deleted comparisons do not exist."""

    def records(self, run_ids: Sequence[str], *, existing: bool = False) -> tuple[RunRecord, ...]:
        """Runs without their steps and tokens, in the requested order. Raises StorageError for an
        unknown id, unless ``existing`` leaves those out."""
        for run_id in run_ids:
            check_id(run_id, "run")
        fields = [
            column for column in RunRow.__table__.columns if column.name not in _NOT_IN_RECORDS
        ]
        with self.read() as connection:
            rows = self._rows(connection, run_ids, *fields, *OF_PROMPT, ComparisonRow.name)
            by_id = {row["id"]: _record(row) for row in rows}
        missing = [run_id for run_id in run_ids if run_id not in by_id]
        if missing and not existing:
            raise unknown(missing[0], "run")
        return tuple(by_id[run_id] for run_id in run_ids if run_id in by_id)

    def traces(self, run_ids: Sequence[str]) -> dict[str, Trace]:
        """Id → trace of existing runs, including those of deleted comparisons, which studies
        use."""

        def read(some: list[str]) -> list[tuple[str, Trace]]:
            with self.read() as connection:
                rows = self._rows(connection, some, RunRow.__table__, *OF_PROMPT, traces=True)
                found = list(rows)
            return [(row["id"], read_trace(row)) for row in found]

        return dict(self.intact(read, "run", run_ids))

    def accepted_by_step(self, run_ids: Sequence[str]) -> dict[str, tuple[int, ...]]:
        """Run id → accepted drafts of each of its steps, in order; including runs of deleted
        comparisons.

        Missing runs and runs without steps are left out.
        """
        by_run: dict[str, tuple[int, ...]] = {}
        for some in batches(run_ids, TRACES_A_READ):
            by_run |= self.intact(self._accepted, "run", some)
        return {run_id: steps for run_id, steps in by_run.items() if steps}

    def _accepted(self, run_ids: Sequence[str]) -> list[tuple[str, tuple[int, ...]]]:
        with self.read() as connection:
            rows = list(self._rows(connection, run_ids, RunRow.id, traces=True))
        return [(row["id"], tuple(read_flat(row)["step.kept"].tolist())) for row in rows]

    def _rows(
        self, connection: Connection, run_ids: Iterable[str], *columns: Any, traces: bool = False
    ) -> Iterator[RowMapping]:
        """``columns`` of these runs and their comparisons, without missing ones; ``traces``: with
        their traces, and those of deleted comparisons."""
        there = (
            select(*columns)
            .select_from(RunRow)
            .join(ComparisonRow, ComparisonRow.id == RunRow.comparison_id)
        )
        if traces:
            there = there.add_columns(*TRACE).join(RunTrace, RunTrace.run_id == RunRow.id)
        there = there.where(
            *() if traces else (ComparisonRow.deleted_at.is_(None),), *self.scope.of(ComparisonRow)
        )
        for some in batches(list(dict.fromkeys(run_ids))):
            yield from connection.execute(there.where(RunRow.id.in_(some))).mappings().all()


def _record(row: RowMapping) -> RunRecord:
    values = {name: row[name] for name in RunRecord.__annotations__ if name in row}
    return RunRecord(**values, config=CONFIG.read(row), summary=SUMMARY.read(row))
