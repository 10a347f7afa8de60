"""Runs, tokens, drafted nodes and votes as columns for export, read a bounded piece at a time. Knows no file format.

Comparisons come in the order in which they were made (or that of the ids asked for), runs by lane, tokens and nodes in order.
Deleted comparisons are left out. Each piece is read in a transaction of its own: on SQLite a long one would hold up writers.
Runs never change, so a row is always whole.

Values are as they are stored, since a writer turns a whole column at once and most need no change: nan is None, texts are in the
spelling of storage.schema.text, JSON is its text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Double, Integer, Select, Text, cast, column, literal, select, type_coerce

from mars_core.types import DraftNode
from storage.lookup import batches, check_id, unknown
from storage.runs.records import read_nodes
from storage.runs.votes import StoredVote, votes_of
from storage.schema import Comparison, Run, Step, Token, Vote
from storage.schema.columns import Real, SafeJson, SafeText
from storage.schema.text import encode
from storage.scope import Conditions, Table
from storage.store import RunStore

SCHEMA_VERSION = 5  # of the exported columns; goes up when one changes its name or meaning
COMPARISONS_A_READ = 20
STEPS_A_READ = 128
_CHECK_A_READ = 1000

Piece = dict[str, Sequence[Any]]  # column → its values, one a row
Head = Any  # a row with what the rows of a run have in common: _RUN, and ``steps``, how many it has
Query = Select[*tuple[Any, ...]]
Columns = tuple[ColumnElement[Any], ...]


def _all(model: type[Comparison | Run | Step | Token], *but: str, prefix: str = "") -> list[ColumnElement[Any]]:
    return [column.label(prefix + column.name) for column in model.__table__.columns if column.name not in but]


_VERSION = literal(SCHEMA_VERSION, Integer).label("schema_version")
_RUN: Columns = (
    _VERSION,
    Run.comparison_id.label("comparison_id"),
    Run.id.label("run_id"),
    Run.lane.label("lane"),
    Run.rule.label("rule"),
)
_TOKEN: Columns = (
    *_all(Token, "run_id"),
    *_all(Step, "run_id", "step", "nodes", prefix="step_"),  # the draft of the step is in NODE_COLUMNS
)
RUN_COLUMNS: Columns = (
    *_RUN[:3],
    *_all(Comparison, "id", "created_at", "deleted_at", "search", "owner"),
    *_all(Run, "id", "comparison_id"),
)
TOKEN_COLUMNS: Columns = (*_RUN, *_TOKEN)
NODE_COLUMNS: Columns = (
    *_RUN,
    Step.step.label("step"),
    *(column(name, Integer) for name in ("node", "parent", "depth", "token_id")),
    column("piece", SafeText),
    *(column(name, Real) for name in ("p", "q")),
    column("outcome", SafeText),
)
VOTE_COLUMNS: Columns = (
    _VERSION,
    Vote.comparison_id.label("comparison_id"),
    Vote.id.label("vote_id"),
    *(Vote.__table__.c[name].label(name) for name in ("created_at", "choice", "left_run_id", "right_run_id")),
    *(column(name, SafeText) for name in ("winner_run_id", "left_rule", "right_rule")),
    Vote.comment.label("comment"),
    Comparison.prompt.label("prompt"),
)


def _run_pieces(store: RunStore, wanted: Sequence[str] | None) -> Iterator[Piece]:
    for page in _pages(store, wanted):
        if rows := _runs(store, page, RUN_COLUMNS):
            yield _piece(RUN_COLUMNS, rows)


def _token_pieces(store: RunStore, wanted: Sequence[str] | None) -> Iterator[Piece]:
    tokens = select(Token.run_id, *map(_stored, _TOKEN))
    tokens = tokens.join(Step, (Step.run_id == Token.run_id) & (Step.step == Token.step))
    tokens = tokens.order_by(Token.run_id, Token.step, Token.ordinal)
    for runs in _together(store, wanted):
        for parts in _parts(store, tokens, Token, runs):
            yield _repeated(parts) | _piece(_TOKEN, [row[1:] for _, rows in parts for row in rows])


def _node_pieces(store: RunStore, wanted: Sequence[str] | None) -> Iterator[Piece]:
    steps = select(Step.run_id, Step.step, _stored(Step.__table__.c.nodes)).order_by(Step.run_id, Step.step)
    for runs in _together(store, wanted):
        for parts in _parts(store, steps, Step, runs):
            nodes = [(run, _nodes(rows)) for run, rows in parts]
            yield _repeated(nodes) | _piece(NODE_COLUMNS[len(_RUN) :], [row for _, rows in nodes for row in rows])


def _nodes(steps: Sequence[Any]) -> list[Any]:
    """A row a node of rows (run id, step, its column ``nodes``). Raises LookupError for an unknown outcome."""
    drafts = json.loads(f"[{','.join(text for _, _, text in steps)}]")
    return [
        (step, number, node.parent, node.depth, node.id, node.piece, *_numbers(node), node.outcome)
        for (_, step, _), draft in zip(steps, drafts, strict=True)
        for number, node in enumerate(read_nodes(draft), start=1)
    ]


def _numbers(node: DraftNode) -> Iterator[float | None]:
    return (None if math.isnan(value) else value for value in (node.p, node.q))


def _vote_pieces(store: RunStore, wanted: Sequence[str] | None) -> Iterator[Piece]:
    for page in _pages(store, wanted):
        with store.read() as connection:
            found = votes_of(connection, page)
        yield _piece(VOTE_COLUMNS, [_vote(vote) for vote in found])


def _vote(vote: StoredVote) -> tuple[Any, ...]:
    ids = (vote.comparison_id, vote.id, vote.created_at, vote.choice, vote.left_run, vote.right_run, vote.winner_run)
    return (SCHEMA_VERSION, *ids, *map(encode, (vote.left_rule, vote.right_rule, vote.comment, vote.prompt)))


@dataclass(frozen=True, slots=True)
class Export:
    """What is exported as one file. ``read``: its rows, in pieces, of comparisons that are known to be there (None: all)."""

    name: str
    columns: Columns
    read: Callable[[RunStore, Sequence[str] | None], Iterator[Piece]]


RUNS = Export("runs", RUN_COLUMNS, _run_pieces)
TOKENS = Export("tokens", TOKEN_COLUMNS, _token_pieces)
NODES = Export("nodes", NODE_COLUMNS, _node_pieces)
VOTES = Export("votes", VOTE_COLUMNS, _vote_pieces)


def pieces(export: Export, store: RunStore, comparison_ids: Iterable[str] | None = None) -> Iterator[Piece]:
    """The rows of ``export``, all or those of some comparisons. Raises StorageError for an unknown id, at once."""
    return export.read(store, _checked(store, comparison_ids))


def _together(store: RunStore, wanted: Sequence[str] | None) -> Iterator[list[Head]]:
    """The runs in order, as many at a time as have STEPS_A_READ steps in all, or one: reading short ones singly takes longer."""
    batch: list[Head] = []
    for page in _pages(store, wanted):
        for run in _runs(store, page, (*_RUN, Run.__table__.c.steps)):
            if batch and sum(each.steps for each in batch) + run.steps > STEPS_A_READ:
                yield batch
                batch = []
            batch.append(run)
    if batch:
        yield batch


def _runs(store: RunStore, page: list[str], columns: Columns) -> list[Any]:
    """``columns`` of the runs of these comparisons, in their order."""
    statement = select(*map(_stored, columns)).join(Comparison, Comparison.id == Run.comparison_id)
    statement = statement.where(*store.scope.of(Comparison), Run.comparison_id.in_(page))
    rows = _fetch(store, statement.order_by(Run.lane, Run.execution_order))
    return sorted(rows, key=lambda row: page.index(row.comparison_id))


def _parts(
    store: RunStore, statement: Query, table: type[Step | Token], runs: Sequence[Head]
) -> Iterator[list[tuple[Head, Sequence[Any]]]]:
    """The rows of some short runs together, or of one run a number of steps at a time. Each row begins with its run's id."""
    if len(runs) > 1:
        of_run: dict[str, list[Any]] = {run.run_id: [] for run in runs}
        for row in _fetch(store, statement.where(table.run_id.in_(of_run))):
            of_run[row[0]].append(row)
        yield [(run, of_run[run.run_id]) for run in runs]
        return
    start, mine = 0, statement.where(table.run_id == runs[0].run_id)
    while rows := _fetch(store, mine.where(table.step >= start, table.step < start + STEPS_A_READ)):
        yield [(runs[0], rows)]
        start += STEPS_A_READ


def _pages(store: RunStore, wanted: Sequence[str] | None) -> Iterator[list[str]]:
    """The ids of a few comparisons at a time."""
    if wanted is not None:
        return map(list, batches(wanted, COMPARISONS_A_READ))
    live = (Comparison.deleted_at.is_(None), *store.scope.of(Comparison))
    pages = in_order(store, Comparison, (Comparison.created_at, Comparison.id), live, COMPARISONS_A_READ)
    return ([row.id for row in page] for page in pages)


def in_order(
    store: RunStore, table: Table, columns: Iterable[Any], which: Conditions, size: int
) -> Iterator[Sequence[Any]]:
    """Rows of ``table`` in the order in which they were made, ``size`` at a time; id and created_at are among ``columns``."""
    statement = select(*columns).where(*which).order_by(table.created_at, table.id).limit(size)
    page = _fetch(store, statement)
    while page:
        yield page
        at, last = page[-1].created_at, page[-1].id
        later = (table.created_at >= at) & ((table.created_at > at) | (table.id > last))
        page = _fetch(store, statement.where(later))


def _checked(store: RunStore, comparison_ids: Iterable[str] | None) -> list[str] | None:
    if comparison_ids is None:
        return None
    wanted = list(dict.fromkeys(comparison_ids))
    for comparison_id in wanted:
        check_id(comparison_id)
    live = select(Comparison.id).where(Comparison.deleted_at.is_(None), *store.scope.of(Comparison))
    for some in batches(wanted, _CHECK_A_READ):
        known = {id_ for (id_,) in _fetch(store, live.where(Comparison.id.in_(some)))}
        if missing := [comparison_id for comparison_id in some if comparison_id not in known]:
            raise unknown(missing[0])
    return wanted


def _fetch(store: RunStore, statement: Query) -> Sequence[Any]:
    with store.read() as connection:
        return connection.execute(statement).all()


def _stored(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """``column`` without what its type would do to each value."""
    match column.type:
        case SafeJson():
            return cast(column, Text).label(column.name)
        case SafeText():
            return type_coerce(column, Text).label(column.name)
        case Real():
            return type_coerce(column, Double).label(column.name)
        case _:
            return column


def _piece(columns: Iterable[ColumnElement[Any]], rows: Sequence[Any]) -> Piece:
    names = [column.name for column in columns]
    return dict(zip(names, zip(*rows, strict=True) if rows else ((),) * len(names), strict=True))


def _repeated(parts: Sequence[tuple[Head, Sequence[Any]]]) -> Piece:
    """What the rows of a run have in common, once a row."""
    return {column.name: [getattr(run, column.name) for run, rows in parts for _ in rows] for column in _RUN}
