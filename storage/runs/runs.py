"""Runs: saving, and reading with or without their steps and tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, RowMapping, bindparam, insert, select

from mars_core.types import PromptConfig, RunConfig, Status, StopReason, Summary, Trace
from storage.connection import Connected
from storage.lookup import batches, check_id, unknown
from storage.runs.records import NewRun, read_config, read_flat, read_prompt, read_summary, read_trace
from storage.runs.reindex import reindex
from storage.schema import Comparison, Run, RunTrace

RUNS_A_READ = 500
TRACES_A_READ = 50
TRACE = (RunTrace.version, RunTrace.data)
_PROMPT = (Comparison.prompt, Comparison.system, Comparison.chat, Comparison.stop)
_OF_COMPARISON = select(Run.__table__, *TRACE).join(RunTrace, RunTrace.run_id == Run.id)
_OF_COMPARISON = _OF_COMPARISON.where(Run.comparison_id == bindparam("of")).order_by(Run.execution_order)
_NOT_IN_RECORDS = ("prompt_ids", "given")  # long columns that only traces need


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run as it was saved. ``lane``: its column, 0-based; ``order``: its position in the order of execution."""

    id: str
    lane: int
    order: int
    trace: Trace


@dataclass(frozen=True, slots=True)
class Repeat:
    """A later run of a lane with the same configuration, made to measure the time; without its tokens."""

    lane: int
    order: int
    status: Status
    summary: Summary


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run without its steps and tokens. ``created_at``: when it was saved; ``name``: its comparison's."""

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
    """Runs by id; those of deleted comparisons only where documented."""

    def records(self, run_ids: Sequence[str]) -> tuple[RunRecord, ...]:
        """Runs without their steps and tokens, in the requested order. Raises StorageError for an unknown id."""
        for run_id in run_ids:
            check_id(run_id, "run")
        own = [column for column in Run.__table__.columns if column.name not in _NOT_IN_RECORDS]
        with self.read() as connection:
            rows = self._rows(connection, run_ids, *own, *_PROMPT, Comparison.name)
            found = {row["id"]: _record(row) for row in rows}
        if missing := [run_id for run_id in run_ids if run_id not in found]:
            raise unknown(missing[0], "run")
        return tuple(found[run_id] for run_id in run_ids)

    def traces(self, run_ids: Sequence[str]) -> dict[str, Trace]:
        """Id → trace of existing runs, including those of deleted comparisons, which studies still use."""
        with self.read() as connection:
            rows = self._rows(connection, run_ids, Run.__table__, *_PROMPT, traces=True)
            return {row["id"]: read_trace(row, read_prompt(row)) for row in rows}

    def kept_by_step(self, run_ids: Sequence[str]) -> dict[str, tuple[int, ...]]:
        """Run id → drafted tokens that each of its steps kept, in order; including runs of deleted comparisons.

        Missing runs and runs without steps are left out.
        """
        found: dict[str, tuple[int, ...]] = {}
        for some in batches(run_ids, TRACES_A_READ):
            with self.read() as connection:
                for row in self._rows(connection, some, Run.id, Run.seed, traces=True):
                    found[row["id"]] = tuple(read_flat(row)["step.kept"].tolist())
        return {run_id: kept for run_id, kept in found.items() if kept}

    def _rows(
        self, connection: Connection, run_ids: Iterable[str], *columns: Any, traces: bool = False
    ) -> Iterator[RowMapping]:
        """``columns`` of these runs and their comparisons, without missing ones; ``traces``: with their traces, and those of
        deleted comparisons."""
        there = select(*columns).select_from(Run).join(Comparison, Comparison.id == Run.comparison_id)
        if traces:
            there = there.add_columns(*TRACE).join(RunTrace, RunTrace.run_id == Run.id)
        there = there.where(*() if traces else (Comparison.deleted_at.is_(None),), *self.scope.of(Comparison))
        for some in batches(list(dict.fromkeys(run_ids)), RUNS_A_READ):
            yield from connection.execute(there.where(Run.id.in_(some))).mappings().all()


def add_run(connection: Connection, comparison_id: str, new: NewRun) -> str:
    """Write the rows of a run of this comparison; returns the id of the run."""
    for table, row in new.items():
        connection.execute(insert(table), row | ({"comparison_id": comparison_id} if table is Run else {}))
    reindex(connection, [comparison_id])
    return str(new[Run]["id"])


def runs_of(
    connection: Connection, comparison_id: str, prompt: PromptConfig
) -> tuple[tuple[StoredRun, ...], tuple[Repeat, ...]]:
    """The first run of every lane, by lane; the later ones, by order."""
    first, repeats = dict[int, StoredRun](), list[Repeat]()
    for run in connection.execute(_OF_COMPARISON, {"of": comparison_id}).mappings():
        lane, order = run["lane"], run["execution_order"]
        if lane in first:
            repeats.append(Repeat(lane, order, run["status"], read_summary(run)))
        else:
            first[lane] = StoredRun(run["id"], lane, order, read_trace(run, prompt))
    return tuple(first[lane] for lane in sorted(first)), tuple(repeats)


def _record(row: RowMapping) -> RunRecord:
    own = ("id", "comparison_id", "lane", "created_at", "status", "stop_reason", "error", "name", "text")
    values = {name: row[name] for name in own}
    return RunRecord(**values, config=read_config(row, read_prompt(row)), summary=read_summary(row))
