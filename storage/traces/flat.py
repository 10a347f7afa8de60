"""The steps, tokens and drafted nodes of a run as flat columns, and back.

A column is named after its table and field: ``token.z1``. One value per row of the table, except

* ``step.tokens``, ``step.nodes`` and ``token.top``: number of tokens, nodes or alternatives of the row in the next table;
* ``token.token``, ``token.own``, ``top.token``, ``node.token``: index of an id and its piece in the vocabulary of the run;
* ``token.outcome``, ``node.outcome``: index of the outcome in OUTCOMES;
* ``run.steps``, ``run.tokens``, ``run.nodes``: number of rows of each of several runs, only where they were joined.

Numeric fields of Token, Step and DraftNode become columns automatically.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import partial
from itertools import accumulate, chain, count, pairwise, starmap
from operator import attrgetter
from typing import Any, get_type_hints

import numpy as np
import pyarrow as pa

from mars_core.types import Alternative, DraftNode, Outcome, Step, Token
from storage.schema.text import storable

Flat = dict[str, Any]  # column → numpy array [rows]; ``vocabulary.piece``: Arrow strings
OUTCOMES = tuple(Outcome)  # stored by their index, so a new one comes last
_INDEX_OF = {outcome: index for index, outcome in enumerate(OUTCOMES)}
KINDS = {int: np.int64, float: np.float64}
PIECE = "vocabulary.piece"


def numbers(kind: type, *without: str) -> dict[str, Any]:
    """Field → numpy type of the fields that are plain numbers."""
    return {
        name: KINDS[each]
        for name, each in get_type_hints(kind).items()
        if each in KINDS and name not in without
    }


TOKEN = numbers(Token, "step", "id", "own")
STEP = numbers(Step, "index")
NODE = numbers(DraftNode, "id")
RENAMED = {"id": "token_id", "start": "char_start", "end": "char_end"}  # field → column of exports
WORDS = ("token.token", "token.own", "top.token", "node.token")
GROUPS = {"step.tokens": "token", "step.nodes": "node", "token.top": "top"}  # count → counted table


Vocabulary = defaultdict[tuple[int, str], int]  # (id, piece) → its index


def _indices(known: Vocabulary, ids: Sequence[int], pieces: Sequence[str]) -> Any:
    return np.array(list(map(known.__getitem__, zip(ids, pieces, strict=True))), np.int64)


def flatten(steps: Sequence[Step]) -> Flat:
    """Return the columns of the steps of one run."""
    known = Vocabulary(count().__next__)
    tokens = [token for step in steps for token in step.tokens]
    nodes = [node for step in steps for node in step.nodes]
    ids, pieces, p = _values(chain.from_iterable(token.top for token in tokens), 3)
    flat: Flat = {
        **_columns("step", STEP, steps),
        "step.tokens": np.array([len(step.tokens) for step in steps], np.int64),
        "step.nodes": np.array([len(step.nodes) for step in steps], np.int64),
        **_columns("token", TOKEN, tokens),
        **_token_columns("token", tokens, known),
        "token.own": _indices(known, *_values(map(attrgetter("own", "own_piece"), tokens), 2)),
        "token.top": np.array([len(token.top) for token in tokens], np.int64),
        "top.token": _indices(known, ids, pieces),
        "top.p": np.array(p, np.float64),
        **_columns("node", NODE, nodes),
        **_token_columns("node", nodes, known),
    }
    ids, pieces = _values(known, 2)
    flat["vocabulary.id"] = np.array(ids, np.int64)
    return flat | {PIECE: pa.array(map(storable, pieces), pa.string())}


def _values(rows: Iterable[Any], width: int) -> Iterable[Any]:
    """Return the columns of rows with ``width`` values."""
    return list(zip(*rows, strict=True)) or [()] * width


def _columns(table: str, names: Mapping[str, Any], rows: Sequence[Any]) -> Flat:
    return {
        f"{table}.{name}": np.fromiter(map(attrgetter(name), rows), kind, len(rows))
        for name, kind in names.items()
    }


def _token_columns(
    table: str, rows: Sequence[Token] | Sequence[DraftNode], known: Vocabulary
) -> Flat:
    ids, pieces, outcomes = _values(map(attrgetter("id", "piece", "outcome"), rows), 3)
    return {
        f"{table}.token": _indices(known, ids, pieces),
        f"{table}.outcome": np.array(list(map(_INDEX_OF.__getitem__, outcomes)), np.int64),
    }


def joined(flats: Sequence[Flat]) -> Flat:
    """Return the columns of several runs, one after the other, with one vocabulary; at least one
    run."""
    before = starts(np.array([len(flat[PIECE]) for flat in flats]))
    together: Flat = {
        name: np.concatenate(
            [flat[name] + at for flat, at in zip(flats, before, strict=True)]
            if name in WORDS
            else [flat[name] for flat in flats]
        )
        for name in flats[0]
        if name != PIECE
    }
    for rows, name in (("steps", "step.kept"), ("tokens", "token.p"), ("nodes", "node.p")):
        together[f"run.{rows}"] = np.array([len(flat[name]) for flat in flats])
    return together | {PIECE: pa.concat_arrays([flat[PIECE] for flat in flats])}


def steps_of(flat: Flat) -> tuple[Step, ...]:
    """Return the steps of the one run of ``flat``."""
    ids, pieces = flat["vocabulary.id"].tolist(), flat[PIECE].to_pylist()

    def group(kind: type, names: Iterable[str], **more: Iterable[Any]) -> list[Any]:
        table = kind.__name__.lower().removeprefix("draft")
        columns = {name: flat[f"{table}.{name}"].tolist() for name in names} | more
        rows = zip(*(columns[each.name] for each in fields(kind)), strict=True)
        return list(starmap(kind, rows))

    def words(column: str) -> tuple[Iterable[int], Iterable[str]]:
        indices = flat[column].tolist()
        return map(ids.__getitem__, indices), map(pieces.__getitem__, indices)

    def texts(table: str) -> dict[str, Iterable[Any]]:
        id_, piece = words(f"{table}.token")
        outcomes = map(OUTCOMES.__getitem__, flat[f"{table}.outcome"].tolist())
        return {"id": id_, "piece": piece, "outcome": outcomes}

    alternative = partial(tuple.__new__, Alternative)  # avoids a Python call for each
    alternatives = list(
        map(alternative, zip(*words("top.token"), flat["top.p"].tolist(), strict=True))
    )
    own_id, own_piece = words("token.own")
    tops, number = _parts(alternatives, flat["token.top"]), numbered(flat["step.tokens"]).tolist()
    tokens = group(
        Token, TOKEN, **texts("token"), own=own_id, own_piece=own_piece, step=number, top=tops
    )
    nodes = group(DraftNode, NODE, **texts("node"))
    parts = {
        "nodes": _parts(nodes, flat["step.nodes"]),
        "tokens": _parts(tokens, flat["step.tokens"]),
    }
    return tuple(group(Step, STEP, index=range(len(flat["step.tokens"])), **parts))


def _parts(items: Sequence[Any], counts: Any) -> Iterator[tuple[Any, ...]]:
    """``items`` in order, split into parts of these lengths."""
    return (
        tuple(items[start:end]) for start, end in pairwise(accumulate(counts.tolist(), initial=0))
    )


def starts(counts: Any) -> Any:
    """Return the index of the first row of each group, for groups with ``counts`` rows."""
    return np.cumsum(counts) - counts


def numbered(counts: Any) -> Any:
    """Return the index of the group of each row, for groups with ``counts`` rows."""
    return np.repeat(np.arange(len(counts)), counts)


def index_in_group(counts: Any) -> Any:
    """Return the index of each row in its group, for groups with ``counts`` rows."""
    return np.arange(np.sum(counts)) - np.repeat(starts(counts), counts)
