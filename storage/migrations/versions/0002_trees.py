"""Draft trees and the meter: the whole draft of a step, where a token stands in it, KL, log-probability. Frozen, as 0001 is.

What stood in the tables were chains: node i stands at depth i, after node i − 1. Of a drafted token that was not judged (it
came after a rejected one) only its id was kept: its text becomes "", p and q nan. KL and log-probability were not measured.
``u`` of sampled drafts was the accepting uniform, ``coin`` from now on; the drawing one was not kept.
Rows are read and written a bounded number at a time, in the one transaction in which storage.database migrates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

RUNS_A_READ = 200
STEPS_A_READ = 200
SHIFTED = 1e-9  # mars_core.telemetry's when this was written
DRAFTED = ("accepted", "relaxed", "rejected")
TREE = ("tree_tokens", "tree_depth", "tree_top_k")
SUMMARY = ("tv_mean", "tv_max", "kl_sum", "kl_mean", "kl_max", "shifted_share", "log_likelihood", "perplexity")

Row = sa.Row[*tuple[Any, ...]]
Found = dict[tuple[int, int], Row]  # (step, draft position) → the drafted token that was judged there

# Texts are copied as they are spelled in the tables (storage.text); so they may be in JSON.
_runs = sa.table(
    "runs",
    sa.column("id", sa.String),
    sa.column("draft_mode", sa.String),
    sa.column("steps", sa.Integer),
    sa.column("tv_sum", sa.Double),
    *(sa.column(name, sa.Double) for name in SUMMARY),
)
_steps = sa.table("steps", sa.column("run_id", sa.String), sa.column("step", sa.Integer), sa.column("nodes", sa.JSON))
_tokens = sa.table(
    "tokens",
    sa.column("run_id", sa.String),
    *(sa.column(name, sa.Integer) for name in ("step", "draft_position", "node", "parent")),
    *(sa.column(name, sa.String) for name in ("outcome", "piece")),
    *(sa.column(name, sa.Double) for name in ("p", "q", "u", "coin", "tv")),
)


def upgrade() -> None:
    for name in TREE:
        op.add_column("runs", sa.Column(name, sa.Integer(), nullable=True))
    for name in SUMMARY:
        op.add_column("runs", sa.Column(name, sa.Double(), nullable=True))
    op.alter_column("steps", "drafted_ids", new_column_name="nodes")
    for name in ("node", "parent"):
        op.add_column("tokens", sa.Column(name, sa.Integer(), nullable=True))
    for name in ("kl", "logprob", "coin"):
        op.add_column("tokens", sa.Column(name, sa.Double(), nullable=True))
    _fill()
    with op.batch_alter_table("tokens") as batch:  # SQLite copies the table; nothing refers to it
        for name in ("node", "parent"):
            batch.alter_column(name, existing_type=sa.Integer(), nullable=False)


def downgrade() -> None:
    """Only the ids of the drafted tokens stay, without their places in a tree."""
    connection = op.get_bind()
    for run in _each_run(connection):
        _rewrite_steps(connection, run.id, lambda _found, _step, nodes: [node[0] for node in nodes])
    connection.execute(sa.update(_tokens).where(_of_sampled_drafts()).values(u=_tokens.c.coin))
    op.alter_column("steps", "nodes", new_column_name="drafted_ids")
    for table, names in (("runs", (*TREE, *SUMMARY)), ("tokens", ("node", "parent", "kl", "logprob", "coin"))):
        for name in names:
            op.drop_column(table, name)


def _fill() -> None:
    connection = op.get_bind()
    tokens = _tokens.c
    node = sa.case((tokens.outcome.in_(DRAFTED), tokens.draft_position), else_=0)
    connection.execute(sa.update(_tokens).values(node=node, parent=tokens.draft_position - 1))
    connection.execute(sa.update(_tokens).where(_of_sampled_drafts()).values(coin=tokens.u, u=None))
    for run in _each_run(connection):
        _rewrite_steps(connection, run.id, _chain)
        _measure(connection, run)


def _of_sampled_drafts() -> sa.ColumnElement[bool]:
    """Tokens that were judged, or drawn after a judgement, with an accepting uniform."""
    sampled = sa.select(_runs.c.id).where(_runs.c.draft_mode == "sampled")
    return sa.and_(_tokens.c.run_id.in_(sampled), _tokens.c.outcome != "bonus")


def _each_run(connection: sa.Connection) -> Iterator[Row]:
    statement = sa.select(_runs).order_by(_runs.c.id).limit(RUNS_A_READ)
    batch = connection.execute(statement).all()
    while batch:
        yield from batch
        batch = connection.execute(statement.where(_runs.c.id > batch[-1].id)).all()


def _rewrite_steps(
    connection: sa.Connection, run_id: str, rewritten: Callable[[Found, int, list[Any]], list[Any]]
) -> None:
    """Put ``rewritten(tokens, step, nodes)`` in the place of the ``nodes`` of every step of a run."""
    statement = sa.select(_steps).where(_steps.c.run_id == run_id).order_by(_steps.c.step).limit(STEPS_A_READ)
    change = sa.update(_steps).where(_steps.c.run_id == run_id, _steps.c.step == sa.bindparam("at"))
    change = change.values(nodes=sa.bindparam("value", type_=sa.JSON()))
    batch = connection.execute(statement).all()
    while batch:
        found = _judged(connection, run_id, batch[0].step, batch[-1].step)
        values = [{"at": row.step, "value": rewritten(found, row.step, row.nodes)} for row in batch if row.nodes]
        if values:
            connection.execute(change, values)
        batch = connection.execute(statement.where(_steps.c.step > batch[-1].step)).all()


def _judged(connection: sa.Connection, run_id: str, first: int, last: int) -> Found:
    tokens = _tokens.c
    columns = (tokens.step, tokens.draft_position, tokens.piece, tokens.p, tokens.q, tokens.outcome)
    statement = sa.select(*columns).where(tokens.run_id == run_id, tokens.step.between(first, last))
    rows = connection.execute(statement.where(tokens.outcome.in_(DRAFTED)))
    return {(row.step, row.draft_position): row for row in rows}


def _chain(found: Found, step: int, ids: list[int]) -> list[Any]:
    """Nodes [id, piece, parent, depth, p, q, outcome] of the drafted ids of a step."""
    nodes: list[Any] = []
    for depth, id_ in enumerate(ids, start=1):
        token = found.get((step, depth))
        law = ["nan", "nan"] if token is None else [_number(token.p), _number(token.q)]
        piece, outcome = ("", "rejected") if token is None else (token.piece, token.outcome)
        nodes.append([id_, piece, depth - 1, depth, *law, outcome])
    return nodes


def _number(value: float | None) -> float | str:
    """As in every JSON column: a word where it is not finite. A NULL is nan."""
    number = math.nan if value is None else value
    return number if math.isfinite(number) else str(number)


def _measure(connection: sa.Connection, run: Row) -> None:
    """The numbers of a summary that the stored TVs tell; NULL where one of them is missing."""
    tokens = _tokens.c
    shifted = sa.func.count(sa.distinct(sa.case((tokens.tv > SHIFTED, tokens.step))))
    statement = sa.select(sa.func.count(), sa.func.count(tokens.tv), sa.func.max(tokens.tv), shifted)
    statement = statement.where(tokens.run_id == run.id, tokens.outcome != "rejected")
    emitted, measured, largest, steps = connection.execute(statement).one()
    if not emitted or emitted != measured or run.tv_sum is None:
        return
    values = {
        "tv_mean": run.tv_sum / emitted,
        "tv_max": largest,
        "shifted_share": steps / run.steps if run.steps else None,
    }
    connection.execute(sa.update(_runs).where(_runs.c.id == run.id).values(values))
