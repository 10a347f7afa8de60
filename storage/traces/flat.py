"""The steps, tokens and drafted nodes of a run as flat columns, and back.

A column is named after its table and field: ``token.z1``. One value per row of the table, except

* ``step.tokens``, ``step.nodes`` and ``token.top``: number of tokens, nodes or alternatives of the row in the next table;
* ``token.token``, ``token.own``, ``top.token``, ``node.token``: index of an id and its piece in the vocabulary of the run;
* ``token.outcome``, ``node.outcome``: index of the outcome in OUTCOMES;
* ``run.seed``, ``run.steps``, ``run.vocabulary``: number of steps and vocabulary entries of each of several concatenated runs.

Numeric fields of Token, Step and DraftNode become columns automatically.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from functools import partial
from itertools import accumulate, pairwise
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa

from mars_core.types import Alternative, DraftNode, Outcome, Step, Token
from storage.schema.text import decode, encode

Flat = dict[str, Any]  # column → numpy array [rows]; ``vocabulary.piece``: Arrow strings
OUTCOMES = tuple(Outcome)
KINDS = {"int": np.int64, "float": np.float64}


def numbers(kind: type, *without: str) -> dict[str, Any]:
    """Field → numpy type of the fields that are plain numbers."""
    return {
        each.name: KINDS[str(each.type)] for each in fields(kind) if each.type in KINDS and each.name not in without
    }


TOKEN = numbers(Token, "step", "id", "own")
STEP = numbers(Step, "index")
NODE = numbers(DraftNode, "id")
RENAMED = {"id": "token_id", "start": "char_start", "end": "char_end"}  # field → column where it has a row per token
ABSENT = {np.int64: -1, np.float64: np.nan}  # values of columns that older data lacks


class _Vocabulary(dict[tuple[int, str], int]):
    """(id, piece) → its index."""

    def __missing__(self, key: tuple[int, str]) -> int:
        self[key] = len(self)
        return self[key]


def flatten(steps: Sequence[Step], seed: int) -> Flat:
    """The columns of the steps of one run."""
    known = _Vocabulary()
    tokens = [token for step in steps for token in step.tokens]
    nodes = [node for step in steps for node in step.nodes]
    top = [alternative for token in tokens for alternative in token.top]
    flat: Flat = {
        "run.seed": [seed],
        "run.steps": np.array([len(steps)]),
        **_columns("step", STEP, steps),
        "step.tokens": np.array([len(step.tokens) for step in steps], np.int64),
        "step.nodes": np.array([len(step.nodes) for step in steps], np.int64),
        **_columns("token", TOKEN, tokens),
        **_token_columns("token", tokens, known),
        "token.own": np.array([known[token.own, token.own_piece] for token in tokens], np.int64),
        "token.top": np.array([len(token.top) for token in tokens], np.int64),
        "top.token": np.array([known[each.id, each.piece] for each in top], np.int64),
        "top.p": np.array([each.p for each in top], np.float64),
        **_columns("node", NODE, nodes),
        **_token_columns("node", nodes, known),
    }
    flat["run.vocabulary"] = np.array([len(known)])
    flat["vocabulary.id"] = np.array([id_ for id_, _ in known], np.int64)
    return flat | {"vocabulary.piece": pa.array([encode(piece) for _, piece in known], pa.string())}


def _columns(table: str, names: Mapping[str, Any], rows: Sequence[Any]) -> Flat:
    columns = zip(*map(attrgetter(*names), rows), strict=True) if rows else [()] * len(names)
    return {f"{table}.{name}": np.array(column, names[name]) for name, column in zip(names, columns, strict=True)}


def _token_columns(table: str, rows: Sequence[Token] | Sequence[DraftNode], known: _Vocabulary) -> Flat:
    places = {outcome: place for place, outcome in enumerate(OUTCOMES)}
    return {
        f"{table}.token": np.array([known[row.id, row.piece] for row in rows], np.int64),
        f"{table}.outcome": np.array([places[row.outcome] for row in rows], np.int64),
    }


def steps_of(flat: Flat) -> tuple[Step, ...]:
    """The steps of the one run of ``flat``."""
    ids, pieces = flat["vocabulary.id"].tolist(), [decode(piece) for piece in flat["vocabulary.piece"].to_pylist()]
    of = {name: flat[name].tolist() for name in flat.keys() - {"vocabulary.piece"} if not name.startswith("run.")}

    def words(table: str) -> dict[str, Sequence[Any]]:
        places = of[f"{table}.token"]
        outcomes = [OUTCOMES[place] for place in of[f"{table}.outcome"]]
        return {"id": [ids[at] for at in places], "piece": [pieces[at] for at in places], "outcome": outcomes}

    places = of["top.token"]
    alternative = partial(tuple.__new__, Alternative)  # avoids a Python call for each
    alternatives = list(
        map(alternative, zip([ids[at] for at in places], [pieces[at] for at in places], of["top.p"], strict=True))
    )
    token = {name: of[f"token.{name}"] for name in TOKEN} | words("token")
    token["own"], token["own_piece"] = ([table[at] for at in of["token.own"]] for table in (ids, pieces))
    token["step"] = numbered(flat["step.tokens"]).tolist()
    token["top"] = list(_parts(alternatives, of["token.top"]))
    node = {name: of[f"node.{name}"] for name in NODE} | words("node")
    step = {name: of[f"step.{name}"] for name in STEP} | {"index": range(len(of["step.tokens"]))}
    step["nodes"] = list(_parts(_build(DraftNode, node), of["step.nodes"]))
    step["tokens"] = list(_parts(_build(Token, token), of["step.tokens"]))
    return tuple(_build(Step, step))


def read_row(kind: type, row: Mapping[Any, Any]) -> Any:
    """A Token or DraftNode from a row of an export, or of a database with a row per token."""
    values = {each.name: row[RENAMED.get(each.name, each.name)] for each in fields(kind)}
    values["outcome"] = Outcome(values["outcome"])
    if "top" in values:
        values["top"] = tuple(Alternative(id_, piece, float(p)) for id_, piece, p in values["top"])
    return kind(**values)


def _build(kind: type, columns: Mapping[str, Sequence[Any]]) -> list[Any]:
    """Objects of a frozen dataclass with slots, filled column by column: two to three times as fast as its constructor."""
    rows: list[Any] = [object.__new__(kind) for _ in next(iter(columns.values()))]
    for each in fields(kind):
        deque(map(getattr(kind, each.name).__set__, rows, columns[each.name]), maxlen=0)
    return rows


def _parts(items: Sequence[Any], counts: Sequence[int]) -> Iterator[tuple[Any, ...]]:
    """``items`` in order, split into parts of these lengths."""
    return (tuple(items[start:end]) for start, end in pairwise(accumulate(counts, initial=0)))


def numbered(counts: Any) -> Any:
    """The index of the group of each row, for groups with ``counts`` rows."""
    return np.repeat(np.arange(len(counts)), counts)
