"""Databases as earlier versions left them: schema and rows. What the traces of 0001 are to be after an upgrade."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, TableClause, column, insert, inspect, table, text

from mars_core.types import DraftNode, Outcome, Step, Trace
from storage import __file__ as package_file
from storage.database import WRITING, _create, file_of, parse_url
from storage.runs.reindex import haystack
from storage.runs.records import Values, prompt_row, run_row, step_rows, token_rows
from storage.schema import Base
from storage.schema.columns import SafeJson

NAN = math.nan
TABLES = ("comparisons", "runs", "steps", "tokens")
NOTHING_NOTED = {
    "name": "",
    "tags": [],
    "comment": "",
    "source": "compare",
    "sweep_id": None,
    "deleted_at": None,
    "owner": "",
}
DRAFTED = (Outcome.ACCEPTED, Outcome.RELAXED, Outcome.REJECTED)
Dump = dict[str, list[dict[str, Any]]]


@contextmanager
def raw(url: str) -> Iterator[Connection]:
    """A writing transaction on the database, whatever its schema."""
    parsed = parse_url(url)
    if path := file_of(parsed):
        path.parent.mkdir(exist_ok=True)
    engine = _create(parsed)
    try:
        with engine.connect().execution_options(**{WRITING: True}) as connection, connection.begin():
            yield connection
    finally:
        engine.dispose()


def migrations(connection: Connection) -> Config:
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(Path(package_file).parent / "migrations"))
    return config


def make_old(url: str, traces: Sequence[Trace], revision: str = "0001") -> list[str]:
    """A database of an earlier schema with one comparison a trace; their ids."""
    ids = [uuid.uuid4().hex for _ in traces]
    with raw(url) as connection:
        command.upgrade(migrations(connection), revision)
        tables = [_old_table(connection, name) for name in TABLES]
        for comparison_id, trace in zip(ids, traces, strict=True):
            for into, rows in zip(tables, _rows(comparison_id, trace), strict=True):
                if rows:
                    connection.execute(insert(into), [{each.name: row[each.name] for each in into.c} for row in rows])
    return ids


def _old_table(connection: Connection, name: str) -> TableClause:
    """The columns that the database has, with the types that they were written with."""
    types = {known.name: known.type for known in Base.metadata.tables[name].columns} | {"drafted_ids": SafeJson()}
    return table(
        name, *(column(found["name"], types[found["name"]]) for found in inspect(connection).get_columns(name))
    )


def _rows(comparison_id: str, trace: Trace) -> tuple[list[Values], ...]:
    """The rows of each table; new columns among them are left out by the table."""
    run_id, now = uuid.uuid4().hex, datetime(2026, 1, 1, tzinfo=UTC)
    run = run_row(trace) | ({"rule": "strict"} if trace.config.drafter.kind == "none" else {})  # until 0006
    place = {"id": run_id, "comparison_id": comparison_id, "lane": 0, "execution_order": 0, "created_at": now}
    steps = step_rows(trace, run_id)
    for row, step in zip(steps, trace.steps, strict=True):
        row["drafted_ids"] = [node.id for node in step.nodes]
    prompt = trace.config.prompt
    comparison = {"id": comparison_id, "created_at": now, **prompt_row(prompt), **NOTHING_NOTED}
    comparison["search"] = haystack(prompt.text, "", "", ())
    return [comparison], [place | run], steps, list(token_rows(trace, run_id))


def dump(url: str) -> Dump:
    """Every row of every table, as the driver gives it."""
    with raw(url) as connection:
        tables = sorted(inspect(connection).get_table_names())
        found = {name: connection.execute(text(f"SELECT * FROM {name}")).mappings() for name in tables}
        return {name: sorted((dict(row) for row in rows), key=repr) for name, rows in found.items()}


def upgraded(trace: Trace) -> Trace:
    """The trace of a chain as it is read after 0002: what 0001 did not keep is nan, "" or rejected."""
    summary = replace(trace.summary, kl_sum=NAN, kl_mean=NAN, kl_max=NAN, log_likelihood=NAN, perplexity=NAN)
    return replace(trace, steps=tuple(map(_upgraded, trace.steps)), summary=summary)


def _upgraded(step: Step) -> Step:
    judged = {token.draft_position: token for token in step.tokens if token.outcome in DRAFTED}
    nodes = []
    for depth, node in enumerate(step.nodes, start=1):
        token = judged.get(depth)
        known = (token.piece, token.p, token.q, token.outcome) if token else ("", NAN, NAN, Outcome.REJECTED)
        piece, p, q, outcome = known
        nodes.append(DraftNode(node.id, piece, depth - 1, depth, p, q, outcome))
    tokens = tuple(replace(token, kl=NAN, logprob=NAN, coin=NAN) for token in step.tokens)
    return replace(step, nodes=tuple(nodes), tokens=tokens)
