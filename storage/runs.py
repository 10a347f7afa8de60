"""Runs in the database: written whole, read back with their steps and tokens or as a record without. Opens no transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, RowMapping, insert, select

from mars_core.types import PromptConfig, RunConfig, Status, StopReason, Summary, Trace
from storage.records import (
    Values,
    check_id,
    new_id,
    read_config,
    read_prompt,
    read_summary,
    read_trace,
    run_row,
    step_rows,
    token_rows,
    unknown,
)
from storage.schema import Comparison, Run, Step, Token
from storage.scope import scope_of

RECORDS_A_READ = 500
_PROMPT = ("prompt", "system", "chat", "stop")
_NOT_IN_RECORDS = ("prompt_ids", "given")  # long, and only a trace has them


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run as it was saved. ``lane``: its column, 0-based; ``order``: its place in the order of execution."""

    id: str
    lane: int
    order: int
    trace: Trace


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


@dataclass(frozen=True, slots=True)
class NewRun:
    """The rows of a run that is to be written; its comparison is named then."""

    id: str
    run: Values
    steps: list[Values]
    tokens: list[Values]


def new_run(trace: Trace, lane: int, order: int) -> NewRun:
    run_id = new_id()
    keys = {"id": run_id, "lane": lane, "execution_order": order}
    run = keys | {"created_at": datetime.now(UTC)} | run_row(trace)
    return NewRun(run_id, run, step_rows(trace, run_id), list(token_rows(trace, run_id)))


def add_run(connection: Connection, comparison_id: str, new: NewRun) -> None:
    connection.execute(insert(Run), new.run | {"comparison_id": comparison_id})
    if new.steps:
        connection.execute(insert(Step), new.steps)
    if new.tokens:
        connection.execute(insert(Token), new.tokens)


def runs_of(connection: Connection, comparison_id: str, prompt: PromptConfig) -> tuple[StoredRun, ...]:
    """The runs of a comparison, by lane, then order."""
    statement = select(Run.__table__).where(Run.comparison_id == comparison_id).order_by(Run.lane, Run.execution_order)
    return tuple(_stored(connection, run, prompt) for run in connection.execute(statement).mappings().all())


def records(connection: Connection, run_ids: Sequence[str]) -> tuple[RunRecord, ...]:
    """In the order asked. Raises StorageError where there is no run of such an id, or its comparison is deleted."""
    for run_id in run_ids:
        check_id(run_id, "run")
    wanted = list(dict.fromkeys(run_ids))
    found: dict[str, RunRecord] = {}
    for start in range(0, len(wanted), RECORDS_A_READ):
        statement = _records(connection).where(Run.id.in_(wanted[start : start + RECORDS_A_READ]))
        found |= {row["id"]: _record(row) for row in connection.execute(statement).mappings()}
    if missing := [run_id for run_id in wanted if run_id not in found]:
        raise unknown(missing[0], "run")
    return tuple(found[run_id] for run_id in run_ids)


def texts(connection: Connection, run_ids: Sequence[str]) -> dict[str, str]:
    """Id → text, without the runs that are not there, or whose comparison is deleted."""
    found: dict[str, str] = {}
    there = select(Run.id, Run.text).join(Comparison, Comparison.id == Run.comparison_id)
    there = there.where(Comparison.deleted_at.is_(None), *scope_of(connection).comparisons())
    for start in range(0, len(run_ids), RECORDS_A_READ):
        rows = connection.execute(there.where(Run.id.in_(run_ids[start : start + RECORDS_A_READ])))
        found |= {id_: text for id_, text in rows}
    return found


def traces(connection: Connection, run_ids: Sequence[str]) -> dict[str, Trace]:
    """Id → trace, without the runs that are not there; a deleted comparison's are."""
    prompt = (Comparison.__table__.c[name] for name in _PROMPT)
    there = select(Run.__table__, *prompt).join(Comparison, Comparison.id == Run.comparison_id)
    there = there.where(*scope_of(connection).comparisons())
    found: dict[str, Trace] = {}
    for start in range(0, len(run_ids), RECORDS_A_READ):
        asked = there.where(Run.id.in_(run_ids[start : start + RECORDS_A_READ]))
        for row in connection.execute(asked).mappings().all():
            found[row["id"]] = _stored(connection, row, read_prompt(row)).trace
    return found


def _stored(connection: Connection, run: RowMapping, prompt: PromptConfig) -> StoredRun:
    steps = select(Step.__table__).where(Step.run_id == run["id"]).order_by(Step.step)
    tokens = select(Token.__table__).where(Token.run_id == run["id"]).order_by(Token.step, Token.ordinal)
    rows = (connection.execute(statement).mappings().all() for statement in (steps, tokens))
    return StoredRun(run["id"], run["lane"], run["execution_order"], read_trace(run, prompt, *rows))


def _records(connection: Connection) -> Any:
    run = [column for column in Run.__table__.columns if column.name not in _NOT_IN_RECORDS]
    comparison = Comparison.__table__.c
    statement = select(*run, *(comparison[name] for name in _PROMPT), comparison.name)
    statement = statement.join(Comparison, Comparison.id == Run.comparison_id)
    return statement.where(Comparison.deleted_at.is_(None), *scope_of(connection).comparisons())


def _record(row: RowMapping) -> RunRecord:
    return RunRecord(
        id=row["id"],
        comparison_id=row["comparison_id"],
        lane=row["lane"],
        created_at=row["created_at"],
        status=row["status"],
        stop_reason=row["stop_reason"],
        error=row["error"],
        name=row["name"],
        config=read_config(row, read_prompt(row)),
        summary=read_summary(row),
        text=row["text"],
    )
