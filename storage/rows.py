"""Runs, tokens, drafted nodes and votes as flat rows for export, read a bounded piece at a time. Knows no file format.

Comparisons come in the order in which they were made (or that of the ids asked for), runs by lane, tokens and nodes in order.
Deleted comparisons are left out. Each piece is read in a transaction of its own: on SQLite a long one would hold up writers.
Runs never change, so a row is always whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Integer, Select, and_, column, or_, select

from mars_core.types import Given
from storage.columns import Real, SafeText
from storage.records import check_id, read_nodes, unknown
from storage.schema import Comparison, Run, Step, Token, Vote
from storage.store import RunStore
from storage.votes import StoredVote, votes_of

SCHEMA_VERSION = 3  # of the exported columns; goes up when one changes its name or meaning
COMPARISONS_A_READ = 20
STEPS_A_READ = 128

Row = dict[str, Any]
Query = Select[*tuple[Any, ...]]
_CHECK_A_READ = 1000


def _all(model: type[Comparison | Run | Step | Token], *but: str, prefix: str = "") -> list[ColumnElement[Any]]:
    return [column.label(prefix + column.name) for column in model.__table__.columns if column.name not in but]


RUN_COLUMNS: tuple[ColumnElement[Any], ...] = (
    Run.comparison_id.label("comparison_id"),
    Run.id.label("run_id"),
    *_all(Comparison, "id", "created_at", "deleted_at", "search"),
    *_all(Run, "id", "comparison_id"),
)
TOKEN_COLUMNS: tuple[ColumnElement[Any], ...] = (
    Run.comparison_id.label("comparison_id"),
    Run.id.label("run_id"),
    Run.lane.label("lane"),
    Run.rule.label("rule"),
    *_all(Token, "run_id"),
    *_all(Step, "run_id", "step", "nodes", prefix="step_"),  # the draft of the step is in NODE_COLUMNS
)
_STEP_COLUMNS: tuple[ColumnElement[Any], ...] = (*TOKEN_COLUMNS[:4], Step.step.label("step"))
NODE_COLUMNS: tuple[ColumnElement[Any], ...] = (
    *_STEP_COLUMNS,
    *(column(name, Integer) for name in ("node", "parent", "depth", "token_id")),
    column("piece", SafeText),
    column("p", Real),
    column("q", Real),
    column("outcome", SafeText),
)
VOTE_COLUMNS: tuple[ColumnElement[Any], ...] = (
    Vote.comparison_id.label("comparison_id"),
    Vote.id.label("vote_id"),
    *(Vote.__table__.c[name].label(name) for name in ("created_at", "choice", "left_run_id", "right_run_id")),
    column("winner_run_id", SafeText),
    column("left_rule", SafeText),
    column("right_rule", SafeText),
    *(Vote.__table__.c[name].label(name) for name in ("comment",)),
    Comparison.prompt.label("prompt"),
)


def run_rows(store: RunStore, comparison_ids: Iterable[str] | None = None) -> Iterator[Row]:
    """One row a run: ``schema_version`` and RUN_COLUMNS. Raises StorageError for an unknown id, at once."""
    return _run_rows(store, _checked(store, comparison_ids))


def token_rows(store: RunStore, comparison_ids: Iterable[str] | None = None) -> Iterator[Row]:
    """One row a token: ``schema_version`` and TOKEN_COLUMNS. Raises StorageError for an unknown id, at once."""
    return _run_by_run(store, _checked(store, comparison_ids), _tokens)


def node_rows(store: RunStore, comparison_ids: Iterable[str] | None = None) -> Iterator[Row]:
    """One row a drafted node: ``schema_version`` and NODE_COLUMNS. Raises StorageError for an unknown id, at once."""
    return _run_by_run(store, _checked(store, comparison_ids), _nodes)


def vote_rows(store: RunStore, comparison_ids: Iterable[str] | None = None) -> Iterator[Row]:
    """One row a vote: ``schema_version`` and VOTE_COLUMNS. Raises StorageError for an unknown id, at once."""
    return _vote_rows(store, _checked(store, comparison_ids))


def _vote_rows(store: RunStore, wanted: Sequence[str] | None) -> Iterator[Row]:
    for page in _pages(store, wanted):
        with store.read() as connection:
            found = votes_of(connection, page)
        yield from map(_vote, found)


def _vote(vote: StoredVote) -> Row:
    return {
        "schema_version": SCHEMA_VERSION,
        "comparison_id": vote.comparison_id,
        "vote_id": vote.id,
        "created_at": vote.created_at,
        "choice": vote.choice,
        "left_run_id": vote.left_run,
        "right_run_id": vote.right_run,
        "winner_run_id": vote.winner_run,
        "left_rule": vote.left_rule,
        "right_rule": vote.right_rule,
        "comment": vote.comment,
        "prompt": vote.prompt,
    }


def _run_rows(store: RunStore, wanted: Sequence[str] | None) -> Iterator[Row]:
    for page in _pages(store, wanted):
        statement = select(*RUN_COLUMNS).join(Comparison, Comparison.id == Run.comparison_id)
        rows = _fetch(store, statement.where(Run.comparison_id.in_(page)).order_by(Run.lane, Run.execution_order))
        yield from sorted(rows, key=lambda row: page.index(row["comparison_id"]))


def _run_by_run(
    store: RunStore, wanted: Sequence[str] | None, rows_of: Callable[[RunStore, str], Iterator[Row]]
) -> Iterator[Row]:
    for page in _pages(store, wanted):
        statement = select(Run.id, Run.comparison_id).where(Run.comparison_id.in_(page))
        runs = _fetch(store, statement.order_by(Run.lane, Run.execution_order))
        for run in sorted(runs, key=lambda row: page.index(row["comparison_id"])):
            yield from rows_of(store, run["id"])


def _tokens(store: RunStore, run_id: str) -> Iterator[Row]:
    statement = select(*TOKEN_COLUMNS).join(Run, Run.id == Token.run_id)
    statement = statement.join(Step, and_(Step.run_id == Token.run_id, Step.step == Token.step))
    statement = statement.where(Token.run_id == run_id).order_by(Token.step, Token.ordinal)
    start = 0
    while batch := _fetch(store, statement.where(Token.step >= start, Token.step < start + STEPS_A_READ)):
        yield from batch
        start += STEPS_A_READ


def _nodes(store: RunStore, run_id: str) -> Iterator[Row]:
    statement = select(*_STEP_COLUMNS, Step.nodes).join(Run, Run.id == Step.run_id)
    statement = statement.where(Step.run_id == run_id).order_by(Step.step)
    start = 0
    while batch := _fetch(store, statement.where(Step.step >= start, Step.step < start + STEPS_A_READ)):
        for step in batch:
            yield from _nodes_of(step)
        start += STEPS_A_READ


def _nodes_of(step: Row) -> Iterator[Row]:
    nodes = read_nodes(step.pop("nodes"))
    for number, node in enumerate(nodes, start=1):
        yield step | {
            "node": number,
            "parent": node.parent,
            "depth": node.depth,
            "token_id": node.id,
            "piece": node.piece,
            "p": node.p,
            "q": node.q,
            "outcome": node.outcome,
        }


def _pages(store: RunStore, wanted: Sequence[str] | None) -> Iterator[list[str]]:
    """The ids of a few comparisons at a time."""
    if wanted is not None:
        for start in range(0, len(wanted), COMPARISONS_A_READ):
            yield list(wanted[start : start + COMPARISONS_A_READ])
        return
    statement = select(Comparison.created_at, Comparison.id).where(Comparison.deleted_at.is_(None))
    statement = statement.order_by(Comparison.created_at, Comparison.id)
    page = _fetch(store, statement.limit(COMPARISONS_A_READ))
    while page:
        yield [row["id"] for row in page]
        at, last = page[-1]["created_at"], page[-1]["id"]
        later = and_(Comparison.created_at >= at, or_(Comparison.created_at > at, Comparison.id > last))
        page = _fetch(store, statement.where(later).limit(COMPARISONS_A_READ))


def _checked(store: RunStore, comparison_ids: Iterable[str] | None) -> list[str] | None:
    if comparison_ids is None:
        return None
    wanted = list(dict.fromkeys(comparison_ids))
    for comparison_id in wanted:
        check_id(comparison_id)
    for start in range(0, len(wanted), _CHECK_A_READ):
        asked = wanted[start : start + _CHECK_A_READ]
        statement = select(Comparison.id).where(Comparison.id.in_(asked), Comparison.deleted_at.is_(None))
        known = {row["id"] for row in _fetch(store, statement)}
        if missing := [comparison_id for comparison_id in asked if comparison_id not in known]:
            raise unknown(missing[0])
    return wanted


def _fetch(store: RunStore, statement: Query) -> list[Row]:
    with store.read() as connection:
        return [_exact(dict(row)) for row in connection.execute(statement).mappings()]


def _exact(row: Row) -> Row:
    """Numbers in JSON columns as floats (a non-finite one is stored as a word); the version of the columns in front."""
    if "top" in row:
        row["top"] = [{"id": id_, "piece": piece, "p": float(p)} for id_, piece, p in row["top"]]
    if "rule_parameters" in row:
        row["rule_parameters"] = {name: float(value) for name, value in row["rule_parameters"].items()}
        row["acceptance_by_position"] = [float(rate) for rate in row["acceptance_by_position"]]
        row["given"] = [Given(*token)._asdict() for token in row["given"]]
    return {"schema_version": SCHEMA_VERSION} | row
