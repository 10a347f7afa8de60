"""Runs, tokens, drafted nodes and votes as Arrow tables for export, a bounded number of rows at a
time.

Comparisons are in order of creation (or of the requested ids), runs by lane, tokens and nodes in
order. Deleted comparisons are left out. Each table is read in a separate transaction. Runs never
change, so rows are consistent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa
from sqlalchemy import select

from storage.connection import NOT_READ
from storage.errors import explained
from storage.export.cells import finite
from storage.export.columns import (
    COUNTERFACTUALS,
    NODES,
    RUNS,
    SCHEMA_VERSION,
    STRUCTS,
    TOKENS,
    VOTES,
    ExportColumn,
    arrow_schema,
)
from storage.export.reading import TV_KIND, checked_ids, pages_of, runs_of
from storage.runs.votes import votes_of
from storage.schema import RunTrace
from storage.store import RunStore
from storage.traces.flat import (
    NODE,
    OUTCOMES,
    PIECE,
    STEP,
    TOKEN,
    Flat,
    index_in_group,
    numbered,
    starts,
)
from storage.traces.packing import checked, unpack

TOKENS_A_TABLE = 20_000
_HEAD = ("comparison_id", "run_id", "lane", "rule")
HeadRows = dict[str, dict[str, Any]]  # runs by id
_OF_VOTE = {
    "vote_id": "id",
    "left_run_id": "left_run",
    "right_run_id": "right_run",
    "winner_run_id": "winner_run",
}


@dataclass(frozen=True)
class Export:
    """One exported file. ``read``: its rows of a few existing comparisons."""

    columns: tuple[ExportColumn, ...]
    read: Callable[[RunStore, list[str]], Iterable[pa.Table]]

    @cached_property
    def schema(self) -> pa.Schema:
        return arrow_schema(self.columns)

    def tables(
        self, store: RunStore, comparison_ids: Iterable[str] | None = None
    ) -> Iterator[pa.Table]:
        """Return all rows, or those of some comparisons. Raises StorageError for an unknown id,
        before the first row."""
        pages = pages_of(store, checked_ids(store, comparison_ids))
        return (table for page in pages for table in self.read(store, page) if len(table))


def _run_values(store: RunStore, page: list[str]) -> list[pa.Table]:
    names = [each.name for each in RUNS[1:]]

    def read(some: list[str]) -> list[pa.Table]:
        return [table_of(RUNS, runs_of(store, some, *names))]

    return store.intact(read, "runs of the comparison", page)


def table_of(columns: tuple[ExportColumn, ...], rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Values of rows, by column, as a table."""
    kinds = {each.name: each.kind for each in columns}

    def stored(name: str, value: Any) -> Any:
        if kinds[name] == "JSON":
            return json.dumps(finite(value), ensure_ascii=False)
        if kinds[name] == "floats":
            return list(map(float, value))  # "nan"
        return list(map(tuple, value)) if kinds[name] in STRUCTS else value

    values = [{name: stored(name, value) for name, value in row.items()} for row in rows]
    return pa.Table.from_pylist(
        [{"schema_version": SCHEMA_VERSION, **row} for row in values], arrow_schema(columns)
    )


def trace_table(name: str, runs: Sequence[Mapping[str, Any]], flat: Flat) -> pa.Table:
    """Return the tokens or the nodes (``name``) of these runs, whose columns are ``flat``. Texts
    are dictionary-encoded."""
    schema, of_rows = EXPORTS[name].schema, _OF_ROWS[name]
    values = of_rows(flat, flat[PIECE].dictionary_encode())
    run_of_row = numbered(flat[f"run.{name}"])
    for column in runs[0].keys() & {*schema.names}:
        of_run = pa.array([run[column] for run in runs], schema.field(column).type)
        if pa.types.is_string(of_run.type):
            of_run = of_run.dictionary_encode()
        values[column] = of_run.take(pa.array(run_of_row))
    values["step"] = numbered(flat[f"step.{name}"]) - starts(flat["run.steps"])[run_of_row]
    values["schema_version"] = np.full(len(run_of_row), SCHEMA_VERSION)
    return pa.table({column: values[column] for column in schema.names})


def _trace_values(name: str, store: RunStore, page: list[str]) -> Iterator[pa.Table]:
    """Reads the tokens or the nodes of some short runs together, or of one long one."""

    def built(heads: HeadRows, some: list[str]) -> Iterator[pa.Table]:
        packed = _packed(store, some)
        runs = [heads[id_] for id_ in some if id_ in packed]
        if not runs:
            return
        with explained(NOT_READ, store.location):
            flat = unpack([packed[run["run_id"]] for run in runs])
        yield trace_table(name, runs, flat)

    for heads in _together(store, page):
        yield from store.intact(partial(built, heads), "trace of the run", [*heads])


def _packed(store: RunStore, run_ids: Sequence[str]) -> dict[str, bytes]:
    """Return the stored traces of those runs that are there."""
    traces = select(RunTrace.run_id, RunTrace.version, RunTrace.data)
    with store.read() as connection:
        rows = connection.execute(traces.where(RunTrace.run_id.in_(run_ids))).all()
    return {id_: checked(version, data) for id_, version, data in rows}


def _tokens(flat: Flat, pieces: Any) -> dict[str, Any]:
    values = {name: flat[f"token.{name}"] for name in TOKEN} | _token_columns(flat, "token", pieces)
    values |= {
        "char_start": values["start"],
        "char_end": values["end"],
        "ordinal": index_in_group(flat["step.tokens"]),
    }
    values |= {
        "own": flat["vocabulary.id"][flat["token.own"]],
        "own_piece": pieces.take(pa.array(flat["token.own"])),
    }
    at = flat["top.token"]
    top = [pa.array(flat["vocabulary.id"][at]), pieces.take(pa.array(at)), pa.array(flat["top.p"])]
    items = pa.StructArray.from_arrays(top, ["id", "piece", "p"])
    ends = np.concatenate([[0], np.cumsum(flat["token.top"])]).astype(np.int32)
    values["top"] = pa.ListArray.from_arrays(pa.array(ends), items)
    step_of_row = numbered(flat["step.tokens"])
    return values | {f"step_{name}": flat[f"step.{name}"][step_of_row] for name in STEP}


def _nodes(flat: Flat, pieces: Any) -> dict[str, Any]:
    values = {name: flat[f"node.{name}"] for name in NODE} | _token_columns(flat, "node", pieces)
    counts, number = flat["step.nodes"], flat["token.node"]
    step_of_row = numbered(flat["step.tokens"])
    (rows,) = np.nonzero((number > 0) & (number <= counts[step_of_row]))
    values["node"] = index_in_group(counts) + 1
    values["judged"] = np.zeros(len(values["node"]), bool)
    values["judged"][starts(counts)[step_of_row[rows]] + number[rows] - 1] = True
    return values


def _token_columns(flat: Flat, table: str, pieces: Any) -> dict[str, Any]:
    at = flat[f"{table}.token"]
    outcomes = pa.DictionaryArray.from_arrays(
        flat[f"{table}.outcome"].astype(np.int32), list(map(str, OUTCOMES))
    )
    return {
        "token_id": flat["vocabulary.id"][at],
        "piece": pieces.take(pa.array(at)),
        "outcome": outcomes,
    }


def _counterfactual_values(store: RunStore, page: list[str]) -> list[pa.Table]:
    def read(heads: HeadRows, some: list[str]) -> list[pa.Table]:
        tokens = store.counterfactuals(some)
        rows = [heads[id_] | asdict(token) for id_ in some for token in tokens.get(id_, ())]
        return [table_of(COUNTERFACTUALS, rows)]

    heads = {run["run_id"]: run for run in runs_of(store, page, *_HEAD)}
    return store.intact(partial(read, heads), "followed tokens of the run", [*heads])


def _vote_values(store: RunStore, page: list[str]) -> list[pa.Table]:
    def read(some: list[str]) -> list[pa.Table]:
        with store.read() as connection:
            votes = votes_of(connection, some)
        rows = [
            {each.name: getattr(vote, _OF_VOTE.get(each.name, each.name)) for each in VOTES[1:]}
            for vote in votes
        ]
        return [table_of(VOTES, rows)]

    return store.intact(read, "vote of the comparison", page)


_OF_ROWS = {"tokens": _tokens, "nodes": _nodes}
EXPORTS = {
    "runs": Export(RUNS, _run_values),
    "tokens": Export(TOKENS, partial(_trace_values, "tokens")),
    "nodes": Export(NODES, partial(_trace_values, "nodes")),
    "counterfactuals": Export(COUNTERFACTUALS, _counterfactual_values),
    "votes": Export(VOTES, _vote_values),
}


def _together(store: RunStore, page: list[str]) -> Iterator[HeadRows]:
    """Yield the heads of the runs in order, in groups of up to TOKENS_A_TABLE tokens, at least one
    run."""
    batch: HeadRows = {}
    for run in runs_of(store, page, *_HEAD, TV_KIND, "new_tokens"):
        tokens = sum(each["new_tokens"] for each in batch.values())
        if batch and tokens + run["new_tokens"] > TOKENS_A_TABLE:
            yield batch
            batch = {}
        batch[run["run_id"]] = run
    if batch:
        yield batch
