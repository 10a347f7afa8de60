"""Migrates a database with one row per token (schema 0006, before 0.1.0) to the current schema, with one value per run, without loss.

A few runs per transaction, so that it can be killed at any time and continues when the database is opened again; several processes
share the work. No page of either version can use the database meanwhile: its schema is UNDER_WAY.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import fields
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, column, delete, insert, inspect, select, table, update
from sqlalchemy.schema import CreateColumn

from mars_core.types import DraftNode, Outcome, Step, Token
from storage.database import EARLIER, known_schemas
from storage.runs.index import create_index, reindex
from storage.runs.records import trace_row
from storage.schema import Comparison, Run, RunTrace
from storage.schema.columns import Base, ListJson, Real, SafeJson, SafeText
from storage.traces.flat import RENAMED, read_row

BEFORE, UNDER_WAY = EARLIER
RUNS_A_WRITE = 20
COMPARISONS_A_WRITE = 500
NOT_INDEXED = -1  # comparisons.runs
OLD_INDEXES = (
    "ix_comparisons_deleted_at_created_at_id_source",
    "ix_comparisons_owner_deleted_at_created_at_id_source",
    "ix_runs_comparison_id_status_tokens_per_s_tau_new_tokens",
)
_LOG = logging.getLogger("mars.storage")
_STEPS = table(
    "steps", column("run_id"), column("step"), column("drafted"), column("kept"), column("nodes", SafeJson),
    *(column(name, Real) for name in ("draft_s", "verify_s", "elapsed_s")),
)  # fmt: skip
_TYPES: dict[str, Any] = {"float": Real, "str": SafeText, "tuple[Alternative, ...]": SafeJson}
_TOKENS = table(
    "tokens", column("run_id"), column("ordinal"),
    *(column(RENAMED.get(field.name, field.name), _TYPES.get(str(field.type))) for field in fields(Token)),
)  # fmt: skip


def carry_over(writing: Callable[[], AbstractContextManager[Connection]]) -> None:
    """``writing`` begins an exclusive write transaction. The database has the schema BEFORE or UNDER_WAY."""
    with writing() as connection:
        if _version(connection) == BEFORE:
            _begin(connection)
    done = 0
    while True:
        with writing() as connection:
            if _version(connection) != UNDER_WAY:  # another process finished it
                return
            without_trace = select(Run.id, Run.seed).where(Run.id.not_in(select(RunTrace.run_id)))
            runs = connection.execute(without_trace.limit(RUNS_A_WRITE)).all()
            for run_id, seed in runs:
                _carry(connection, run_id, seed)
            listed = [] if runs else _index(connection)
            if not runs and not listed:
                _end(connection)
                return
        done += len(runs)
        if done % (10 * RUNS_A_WRITE) < RUNS_A_WRITE:
            _LOG.info("The database is being migrated: %d runs done.", done)


def _version(connection: Connection) -> str:
    return str(connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar_one())


def _begin(connection: Connection) -> None:
    for name in OLD_INDEXES:
        connection.execute(sa.text(f"DROP INDEX {name}"))
    for each in Base.metadata.sorted_tables:
        if not inspect(connection).has_table(each.name):
            each.create(connection)
            continue
        there = {known["name"] for known in inspect(connection).get_columns(each.name)}
        for new in (new for new in each.columns if new.name not in there):
            definition = CreateColumn(new).compile(dialect=connection.dialect)
            connection.execute(sa.text(f"ALTER TABLE {each.name} ADD COLUMN {definition}"))
        for index in each.indexes:
            index.create(connection, checkfirst=True)
    create_index(connection)
    connection.execute(update(Comparison).values(runs=NOT_INDEXED))
    connection.execute(sa.text("UPDATE alembic_version SET version_num = :now"), {"now": UNDER_WAY})


def _carry(connection: Connection, run_id: str, seed: int) -> None:
    connection.execute(insert(RunTrace), trace_row(run_id, _steps(connection, run_id), seed))
    for old in (_TOKENS, _STEPS):
        connection.execute(delete(old).where(old.c.run_id == run_id))


def _index(connection: Connection) -> list[str]:
    """Indexes some comparisons; returns their ids."""
    few = select(Comparison.id).where(Comparison.runs == NOT_INDEXED).limit(COMPARISONS_A_WRITE)
    found = list(connection.scalars(few))
    reindex(connection, found)
    return found


def _steps(connection: Connection, run_id: str) -> tuple[Step, ...]:
    steps = connection.execute(select(_STEPS).where(_STEPS.c.run_id == run_id).order_by(_STEPS.c.step)).mappings()
    found: dict[int, tuple[sa.RowMapping, list[Token]]] = {row["step"]: (row, []) for row in steps}
    tokens = select(_TOKENS).where(_TOKENS.c.run_id == run_id).order_by(_TOKENS.c.step, _TOKENS.c.ordinal)
    for row in connection.execute(tokens).mappings():
        found[row["step"]][1].append(read_row(Token, row))
    return tuple(
        Step(
            row["step"], row["drafted"], row["kept"], row["draft_s"], row["verify_s"], row["elapsed_s"],
            tuple(_node(*each) for each in row["nodes"]),
            tuple(tokens),
        )
        for row, tokens in found.values()
    )  # fmt: skip


def _node(id_: int, piece: str, parent: int, depth: int, p: Any, q: Any, outcome: str) -> DraftNode:
    return DraftNode(id_, piece, parent, depth, float(p), float(q), Outcome(outcome))


def _end(connection: Connection) -> None:
    for old in ("tokens", "steps"):
        connection.execute(sa.text(f"DROP TABLE {old}"))
    if connection.dialect.name == "postgresql":
        for each in Base.metadata.tables.values():
            for one in (one for one in each.columns if isinstance(one.type, ListJson)):
                default = f", ALTER {one.name} SET DEFAULT '[]'" if one.server_default is not None else ""
                change = f"ALTER {one.name} DROP DEFAULT, ALTER {one.name} TYPE JSONB USING CAST({one.name} AS JSONB){default}"
                connection.execute(sa.text(f"ALTER TABLE {each.name} {change}"))
    connection.execute(sa.text("UPDATE alembic_version SET version_num = :now"), {"now": known_schemas()[-1]})
