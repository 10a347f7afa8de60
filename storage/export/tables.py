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
from storage.export.reading import TV_KIND, pages_of, run_ids_of, runs_of
from storage.runs.votes import votes_of
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
_OF_VOTE = {
    "vote_id": "id",
    "left_run_id": "left_run",
    "right_run_id": "right_run",
    "winner_run_id": "winner_run",
}


@dataclass(frozen=True)
class Export:
    """One exported file. ``read``: its rows of a few existing runs (``of_runs``) or comparisons, by
    id; ``what``, with an id, names a damaged one."""

    columns: tuple[ExportColumn, ...]
    what: str
    read: Callable[[RunStore, list[str]], Iterable[pa.Table]]
    of_runs: bool = True

    @cached_property
    def schema(self) -> pa.Schema:
        return arrow_schema(self.columns)

    def tables(
        self, store: RunStore, comparison_ids: Iterable[str] | None = None
    ) -> Iterator[pa.Table]:
        """Return all rows, or those of some comparisons. Raises StorageError for an unknown id,
        before the first row."""
        pages, read = pages_of(store, comparison_ids), partial(self.read, store)
        runs_of_page = partial(run_ids_of, store, tokens=TOKENS_A_TABLE)
        groups = (
            group
            for page in pages
            for group in (
                store.intact(runs_of_page, "comparison", page) if self.of_runs else [page]
            )
        )
        every = (table for group in groups for table in store.intact(read, self.what, group))
        return (table for table in every if len(table))


def table_of(columns: tuple[ExportColumn, ...], rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return values of rows, by column, as a table."""
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


_OF_ROWS = {"tokens": _tokens, "nodes": _nodes}


def _runs(store: RunStore, run_ids: list[str]) -> list[pa.Table]:
    return [table_of(RUNS, runs_of(store, run_ids, *(each.name for each in RUNS[1:])))]


def _traces(name: str, store: RunStore, run_ids: list[str]) -> list[pa.Table]:
    runs = runs_of(store, run_ids, *_HEAD, TV_KIND, "version", "data")
    runs = [run for run in runs if run["data"] is not None]
    packed = [checked(run["version"], run["data"]) for run in runs]
    return [trace_table(name, runs, unpack(packed))] if runs else []


def _counterfactuals(store: RunStore, run_ids: list[str]) -> list[pa.Table]:
    tokens, heads = store.counterfactuals(run_ids), runs_of(store, run_ids, *_HEAD)
    rows = [head | asdict(token) for head in heads for token in tokens.get(head["run_id"], ())]
    return [table_of(COUNTERFACTUALS, rows)]


def _votes(store: RunStore, comparison_ids: list[str]) -> list[pa.Table]:
    names = [each.name for each in VOTES[1:]]
    votes = votes_of(store, comparison_ids)
    rows = [{name: getattr(vote, _OF_VOTE.get(name, name)) for name in names} for vote in votes]
    return [table_of(VOTES, rows)]


EXPORTS = {
    "runs": Export(RUNS, "run", _runs),
    "tokens": Export(TOKENS, "trace of the run", partial(_traces, "tokens")),
    "nodes": Export(NODES, "trace of the run", partial(_traces, "nodes")),
    "counterfactuals": Export(COUNTERFACTUALS, "followed tokens of the run", _counterfactuals),
    "votes": Export(VOTES, "vote of the comparison", _votes, of_runs=False),
}
