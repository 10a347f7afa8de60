"""Predicted values of columns that can be derived from others."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pyarrow.compute as pc

from storage.traces.flat import OUTCOMES, Flat, index_in_group, numbered, starts

MAX_ROWS = 2**21  # tokens, drafted nodes or alternatives of a run
MAX_UNIFORMS = 2**20  # of a run; longer runs store their uniforms
DRAWS = 256  # uniforms are drawn in multiples of this number
_EMITTED = np.array([outcome != "rejected" for outcome in OUTCOMES])


class TraceShape:
    """Groups of token rows, from ``run.steps``, ``run.vocabulary``, ``step.tokens``, ``step.nodes``
    and ``token.parent``.

    ``counts``, ``nodes``: [runs], rows and nodes of each run; ``row_start``: [rows], the first row
    of its run; ``first``: bool [rows], whether a row is the first of its position, that is, after its
    node in its step; ``step_of_row``, ``run_of_row``, ``position_of_row``: [rows];
    ``vocabulary_start``: [runs], where the vocabulary of a run begins.
    """

    def __init__(self, flat: Flat) -> None:
        """Raises OverflowError for counts that no run has."""
        steps, parent = flat["run.steps"], flat["token.parent"]
        self.counts, self.nodes = (
            _per_run(flat["step.tokens"], steps),
            _per_run(flat["step.nodes"], steps),
        )
        self.step_of_row, self.run_of_row = numbered(flat["step.tokens"]), numbered(self.counts)
        self.row_start = starts(self.counts)[self.run_of_row]
        self.vocabulary_start = starts(flat["run.vocabulary"])
        self.first = np.ones(len(parent), bool)
        self.first[1:] = (self.step_of_row[1:] != self.step_of_row[:-1]) | (
            parent[1:] != parent[:-1]
        )
        self.position_of_row = np.cumsum(self.first) - 1

    def sums(self, values: Any) -> Any:
        """The sum of the ``values`` before each row of its run."""
        before = starts(values)
        return before - before[self.row_start] if len(before) else before


def _per_run(counts: Any, steps: Any) -> Any:
    """The sum of the ``counts`` [steps] of each run. Raises OverflowError."""
    check_counts(counts, counts)
    sums = np.diff(
        np.concatenate([[0], np.cumsum(counts)])[np.concatenate([[0], np.cumsum(steps)])]
    )
    check_counts(counts, sums)
    return sums


def check_counts(counts: Any, sums: Any) -> None:
    """Raise OverflowError unless ``counts`` are counts and none of their ``sums`` is more than a
    run has."""
    if counts.min(initial=0) < 0 or sums.max(initial=0) > MAX_ROWS:
        raise OverflowError(
            f"a run may have {MAX_ROWS:,} tokens, drafted tokens or alternatives at most"
        )


def _position(flat: Flat, shape: TraceShape) -> Any:
    return shape.sums(_EMITTED[flat["token.outcome"]].astype(np.int64))


def _characters(flat: Flat, shape: TraceShape, *, end: bool) -> Any:
    """Start or end of the piece of each row, if the text is the concatenation of all pieces."""
    lengths = (
        pc.utf8_length(flat["vocabulary.piece"]).to_numpy(zero_copy_only=False).astype(np.int64)
    )
    emitted = lengths[flat["token.token"]] * _EMITTED[flat["token.outcome"]]
    return shape.sums(emitted) + (emitted if end else 0)


def _alternative(flat: Flat, _: TraceShape, *, number: int) -> Any:
    """The id of each row's alternative of this number; 0 if it has none."""
    counts = flat["token.top"]
    there = counts > number
    ids = np.zeros(len(counts), np.int64)
    ids[there] = flat["vocabulary.id"][flat["top.token"][starts(counts)[there] + number]]
    return ids


def _ratio(flat: Flat, _: TraceShape) -> Any:
    z1, z2 = flat["token.z1"], flat["token.z2"]
    with np.errstate(all="ignore"):
        return np.where(z1 > 0, z2 / z1, np.nan)


def _gap(flat: Flat, _: TraceShape) -> Any:
    with np.errstate(all="ignore"):
        return flat["token.z1"] - flat["token.z2"]


def _uniforms(flat: Flat, shape: TraceShape) -> Any:
    """Uniforms by output position, of runs that drew by inverse CDF; later runs have none."""
    u = np.full(len(flat["token.position"]), np.nan)
    for seed, start, count in zip(
        flat["run.seed"], starts(shape.counts), shape.counts, strict=True
    ):
        rows = slice(start, start + count)
        position = flat["token.position"][rows]
        if position.min(initial=0) >= 0 and position.max(initial=0) < MAX_UNIFORMS:
            u[rows] = _draws(int(seed), (position.max(initial=0) // DRAWS + 1) * DRAWS)[position]
    return u


@lru_cache(4)  # the lanes of a comparison have one seed
def _draws(seed: int, count: int) -> Any:
    source = random.Random(seed)
    return np.array([source.random() for _ in range(count)])


def _probability(flat: Flat, _: TraceShape) -> Any:
    """The probability of each row's token among its alternatives; nan if it is not one of them."""
    rows = numbered(flat["token.top"])
    same = flat["top.token"] == flat["token.token"][rows]
    p = np.full(len(flat["token.top"]), np.nan)
    p[rows[same]] = flat["top.p"][same]
    return p


def judged(flat: Flat, shape: TraceShape) -> tuple[Any, Any]:
    """Rows of tokens and of nodes that are the same drafted token."""
    counts = flat["step.nodes"]
    number = flat["token.node"]
    (rows,) = np.nonzero((number > 0) & (number <= counts[shape.step_of_row]))
    return rows, starts(counts)[shape.step_of_row[rows]] + number[rows] - 1


def _of_nodes(flat: Flat, shape: TraceShape, *, name: str, otherwise: float) -> Any:
    """Values of the drafted nodes from their tokens; ``otherwise`` for nodes without a token."""
    column = flat[f"token.{name}"]
    values = np.full(flat["step.nodes"].sum(), otherwise, column.dtype)
    rows, nodes = judged(flat, shape)
    values[nodes] = column[rows]
    return values


def _node_tokens(flat: Flat, shape: TraceShape) -> Any:
    tokens = np.repeat(shape.vocabulary_start[numbered(flat["run.steps"])], flat["step.nodes"])
    rows, nodes = judged(flat, shape)
    tokens[nodes] = flat["token.token"][rows]
    return tokens


# In order of computation: each needs stored columns and those above it.
DERIVED: Mapping[str, Callable[[Flat, TraceShape], Any]] = {
    "token.position": _position,
    "token.start": partial(_characters, end=False),
    "token.end": partial(_characters, end=True),
    "token.own": lambda flat, _: flat["token.token"],
    "token.id1": partial(_alternative, number=0),
    "token.id2": partial(_alternative, number=1),
    "token.gap": _gap,
    "token.r": _ratio,
    "token.edge": lambda flat, _: flat["token.gap"],
    "token.u": _uniforms,
    "token.p": _probability,
    "step.drafted": lambda flat, _: flat["step.nodes"],
    "node.token": _node_tokens,
    "node.outcome": partial(_of_nodes, name="outcome", otherwise=OUTCOMES.index("rejected")),
    "node.p": partial(_of_nodes, name="p", otherwise=np.nan),
    "node.q": partial(_of_nodes, name="q", otherwise=np.nan),
    "node.parent": lambda flat, _: index_in_group(flat["step.nodes"]),
    "node.depth": lambda flat, _: index_in_group(flat["step.nodes"]) + 1,
}
