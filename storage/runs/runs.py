"""Runs by their ids: without steps and tokens, with them, or what one number of every step was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import RowMapping, Select, select

from mars_core.types import RunConfig, Status, StopReason, Summary, Trace
from storage.connection import Connected, T
from storage.runs.records import OF_PROMPT, TRACE, read_flat, read_trace
from storage.schema import ComparisonRow, RunRow, RunTrace
from storage.schema.trace import CONFIG, SUMMARY
from storage.scope import batches, check_id, unknown

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
        runs = self._runs(*fields, *OF_PROMPT, ComparisonRow.name)
        runs = runs.where(ComparisonRow.deleted_at.is_(None))
        with self.read() as connection:
            by_id = {
                row["id"]: _record(row)
                for some in batches(run_ids)
                for row in connection.execute(runs.where(RunRow.id.in_(some))).mappings()
            }
        missing = [run_id for run_id in run_ids if run_id not in by_id]
        if missing and not existing:
            raise unknown(missing[0], "run")
        return tuple(by_id[run_id] for run_id in run_ids if run_id in by_id)

    def traces(self, run_ids: Sequence[str]) -> dict[str, Trace]:
        """Id → trace of existing runs, including those of deleted comparisons, which studies
        use."""
        return self._of_traces(run_ids, read_trace, RunRow.__table__, *OF_PROMPT)

    def accepted_by_step(self, run_ids: Sequence[str]) -> dict[str, tuple[int, ...]]:
        """Run id → accepted drafts of each of its steps, in order; including runs of deleted
        comparisons.

        Missing runs and runs without steps are left out.
        """

        def kept(row: RowMapping) -> tuple[int, ...]:
            return tuple(read_flat(row)["step.kept"].tolist())

        by_run = self._of_traces(run_ids, kept, RunRow.id)
        return {run_id: steps for run_id, steps in by_run.items() if steps}

    def _of_traces(
        self, run_ids: Sequence[str], make: Callable[[RowMapping], T], *columns: Any
    ) -> dict[str, T]:
        """Return ``make`` of ``columns`` and the trace of each run, without missing and damaged
        ones."""
        runs = self._runs(*columns, *TRACE).join(RunTrace, RunTrace.run_id == RunRow.id)
        pairs = self.rows(runs, RunRow.id, "run", lambda row: (row["id"], make(row)), run_ids)
        return dict(pairs)

    def _runs(self, *columns: Any) -> Select[*tuple[Any, ...]]:
        """Select ``columns`` of the runs in the scope and of their comparisons."""
        runs = select(*columns).select_from(RunRow)
        runs = runs.join(ComparisonRow, ComparisonRow.id == RunRow.comparison_id)
        return runs.where(*self.scope.of(ComparisonRow))


def _record(row: RowMapping) -> RunRecord:
    values = {name: row[name] for name in RunRecord.__annotations__ if name in row}
    return RunRecord(**values, config=CONFIG.read(row), summary=SUMMARY.read(row))
