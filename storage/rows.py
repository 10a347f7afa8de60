"""Runs, tokens, drafted nodes and votes as columns for export, read a bounded piece at a time. Knows no file format.

Comparisons come in the order in which they were made (or that of the ids asked for), runs by lane, tokens and nodes in order.
Deleted comparisons are left out. Each piece is read in a transaction of its own: on SQLite a long one would hold up writers.
Runs never change, so a row is always whole.

Values are as they are stored, since a writer turns a whole column at once and most need no change: nan is None, texts are in the
spelling of storage.text, JSON is its text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Double,
    Integer,
    Select,
    Text,
    and_,
    cast,
    column,
    literal,
    or_,
    select,
    type_coerce,
)

from storage.columns import Real, SafeJson, SafeText
from storage.nodes import stored_nodes
from storage.records import check_id, unknown
from storage.schema import Comparison, Run, Step, Token, Vote
from storage.store import RunStore
from storage.text import encode
from storage.votes import StoredVote, votes_of

SCHEMA_VERSION = 5  # of the exported columns; goes up when one changes its name or meaning
COMPARISONS_A_READ = 20
STEPS_A_READ = 128
_CHECK_A_READ = 1000

Piece = dict[str, Sequence[Any]]  # column → its values, one a row
Head = dict[str, Any]  # what the rows of a run have in common: _RUN, and ``steps``, how many it has
Stored = Sequence[Any]  # one row
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
    column("p", Real),
    column("q", Real),
    column("outcome", SafeText),
)
VOTE_COLUMNS: Columns = (
    _VERSION,
    Vote.comparison_id.label("comparison_id"),
    Vote.id.label("vote_id"),
    *(Vote.__table__.c[name].label(name) for name in ("created_at", "choice", "left_run_id", "right_run_id")),
    column("winner_run_id", SafeText),
    column("left_rule", SafeText),
    column("right_rule", SafeText),
    *(Vote.__table__.c[name].label(name) for name in ("comment",)),
    Comparison.prompt.label("prompt"),
)


def run_pieces(store: RunStore, comparison_ids: Iterable[str] | None = None) -> Iterator[Piece]:
    """RUN_COLUMNS, one row a run. Raises StorageError for an unknown id, at once."""
    return _run_pieces(store, _checked(store, comparison_ids))


def token_pieces(store: RunStore, comparison_ids: Iterable[str] | None = None) -> Iterator[Piece]:
    """TOKEN_COLUMNS, one row a token. Raises StorageError for an unknown id, at once."""
    return _token_pieces(store, _checked(store, comparison_ids))


def node_pieces(store: RunStore, comparison_ids: Iterable[str] | None = None) -> Iterator[Piece]:
    """NODE_COLUMNS, one row a drafted node. Raises StorageError for an unknown id, at once."""
    return _node_pieces(store, _checked(store, comparison_ids))


def vote_pieces(store: RunStore, comparison_ids: Iterable[str] | None = None) -> Iterator[Piece]:
    """VOTE_COLUMNS, one row a vote. Raises StorageError for an unknown id, at once."""
    return _vote_pieces(store, _checked(store, comparison_ids))


def _run_pieces(store: RunStore, wanted: Sequence[str] | None) -> Iterator[Piece]:
    for page in _pages(store, wanted):
        statement = select(*_stored(RUN_COLUMNS)).join(Comparison, Comparison.id == Run.comparison_id)
        statement = statement.where(*store.scope.comparisons(), Run.comparison_id.in_(page)).order_by(
            Run.lane, Run.execution_order
        )
        if rows := _fetch(store, statement):
            place = [column.name for column in RUN_COLUMNS].index("comparison_id")
            yield _piece(RUN_COLUMNS, sorted(rows, key=lambda row: page.index(row[place])))


def _token_pieces(store: RunStore, wanted: Sequence[str] | None) -> Iterator[Piece]:
    tokens = select(Token.run_id, *_stored(_TOKEN))
    tokens = tokens.join(Step, and_(Step.run_id == Token.run_id, Step.step == Token.step))
    tokens = tokens.order_by(Token.run_id, Token.step, Token.ordinal)
    for runs in _together(store, wanted):
        for parts in _parts(store, tokens, Token, runs):
            yield _repeated(parts) | _piece(_TOKEN, [row[1:] for _, rows in parts for row in rows])


def _node_pieces(store: RunStore, wanted: Sequence[str] | None) -> Iterator[Piece]:
    steps = select(Step.run_id, Step.step, *_stored([Step.nodes.label("nodes")])).order_by(Step.run_id, Step.step)
    for runs in _together(store, wanted):
        for parts in _parts(store, steps, Step, runs):
            nodes = [(run, stored_nodes([row[1:] for row in rows])) for run, rows in parts]
            yield _repeated(nodes) | _piece(NODE_COLUMNS[len(_RUN) :], [row for _, rows in nodes for row in rows])


def _vote_pieces(store: RunStore, wanted: Sequence[str] | None) -> Iterator[Piece]:
    for page in _pages(store, wanted):
        with store.read() as connection:
            found = votes_of(connection, page)
        yield _piece(VOTE_COLUMNS, [_vote(vote) for vote in found])


def _vote(vote: StoredVote) -> tuple[Any, ...]:
    ids = (vote.comparison_id, vote.id, vote.created_at, vote.choice, vote.left_run, vote.right_run, vote.winner_run)
    return (SCHEMA_VERSION, *ids, *map(encode, (vote.left_rule, vote.right_rule, vote.comment, vote.prompt)))


def _together(store: RunStore, wanted: Sequence[str] | None) -> Iterator[list[Head]]:
    """The runs in order, as many at a time as have STEPS_A_READ steps in all, or one: reading short ones singly takes longer."""
    held: list[Head] = []
    for page in _pages(store, wanted):
        statement = select(*_stored(_RUN), Run.steps.label("steps")).join(
            Comparison, Comparison.id == Run.comparison_id
        )
        statement = statement.where(*store.scope.comparisons(), Run.comparison_id.in_(page))
        rows = _fetch(store, statement.order_by(Run.lane, Run.execution_order))
        names = (*(column.name for column in _RUN), "steps")
        runs = [dict(zip(names, row, strict=True)) for row in rows]
        for run in sorted(runs, key=lambda run: page.index(run["comparison_id"])):
            if held and sum(each["steps"] for each in held) + run["steps"] > STEPS_A_READ:
                yield held
                held = []
            held.append(run)
    if held:
        yield held


def _parts(
    store: RunStore, statement: Query, table: type[Step | Token], runs: Sequence[Head]
) -> Iterator[list[tuple[Head, Sequence[Stored]]]]:
    """The rows of some short runs together, or of one run a number of steps at a time. Each row begins with its run's id."""
    if len(runs) > 1:
        of_run: dict[str, list[Stored]] = {run["run_id"]: [] for run in runs}
        for row in _fetch(store, statement.where(table.run_id.in_(of_run))):
            of_run[row[0]].append(row)
        yield [(run, of_run[run["run_id"]]) for run in runs]
        return
    start, mine = 0, statement.where(table.run_id == runs[0]["run_id"])
    while rows := _fetch(store, mine.where(table.step >= start, table.step < start + STEPS_A_READ)):
        yield [(runs[0], rows)]
        start += STEPS_A_READ


def _pages(store: RunStore, wanted: Sequence[str] | None) -> Iterator[list[str]]:
    """The ids of a few comparisons at a time."""
    if wanted is not None:
        for start in range(0, len(wanted), COMPARISONS_A_READ):
            yield list(wanted[start : start + COMPARISONS_A_READ])
        return
    statement = select(Comparison.created_at, Comparison.id)
    statement = statement.where(Comparison.deleted_at.is_(None), *store.scope.comparisons())
    statement = statement.order_by(Comparison.created_at, Comparison.id)
    page = _fetch(store, statement.limit(COMPARISONS_A_READ))
    while page:
        yield [id_ for _, id_ in page]
        at, last = page[-1]
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
        statement = statement.where(*store.scope.comparisons())
        known = {id_ for (id_,) in _fetch(store, statement)}
        if missing := [comparison_id for comparison_id in asked if comparison_id not in known]:
            raise unknown(missing[0])
    return wanted


def _fetch(store: RunStore, statement: Query) -> Sequence[Stored]:
    with store.read() as connection:
        return connection.execute(statement).all()


def _stored(columns: Iterable[ColumnElement[Any]]) -> list[ColumnElement[Any]]:
    """``columns`` without what their types would do to each value."""
    return [_as_stored(column) for column in columns]


def _as_stored(column: ColumnElement[Any]) -> ColumnElement[Any]:
    match column.type:
        case SafeJson():
            return cast(column, Text).label(column.name)
        case SafeText():
            return type_coerce(column, Text).label(column.name)
        case Real():
            return type_coerce(column, Double).label(column.name)
        case _:
            return column


def _piece(columns: Iterable[ColumnElement[Any]], rows: Sequence[Stored]) -> Piece:
    names = [column.name for column in columns]
    return dict(zip(names, zip(*rows, strict=True) if rows else ((),) * len(names), strict=True))


def _repeated(parts: Sequence[tuple[Head, Sequence[Stored]]]) -> Piece:
    """What the rows of a run have in common, once a row."""
    return {column.name: [run[column.name] for run, rows in parts for _ in rows] for column in _RUN}
