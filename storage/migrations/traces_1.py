"""Reads the steps of a run in the first format, which left out what follows from other columns."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from storage.traces.flat import (
    GROUPS,
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
from storage.traces.packing import ABSENT, columns_of

MAX_ROWS = 2**21  # tokens, drafted nodes or alternatives of a run
MAX_UNIFORMS = 2**20  # of a run; longer runs stored their uniforms
DRAWS = 256  # uniforms were drawn in multiples of this number
_EMITTED = np.array([outcome != "rejected" for outcome in OUTCOMES])
_REJECTED = OUTCOMES.index("rejected")
_TOP = ("top.token", "top.p")


def read_first(data: bytes, seed: int, plain: Callable[[str], str]) -> Flat:
    """The columns of a run, its pieces made ``plain``. Raises LookupError, ValueError and others for
    damaged bytes."""
    return _First(columns_of(data), seed).flat(plain)


class _First:
    """A value that differs from the derived one was stored: integers as differences, in others the
    differing values with the distances of their rows in a column ``NAME@``. What the target has at a
    position, which a rejected token and the one emitted instead share, was stored once."""

    def __init__(self, stored: Flat, seed: int) -> None:
        self._stored, self._seed, self._flat = stored, seed, dict[str, Any]()
        steps, parent = stored["step.tokens"], stored["token.parent"]
        self._counts = {"step": len(steps)}
        for name in ("step.tokens", "step.nodes"):
            self._counts[GROUPS[name]] = _total(stored[name])
        self._step_of_row = numbered(steps)
        first = np.ones(len(parent), bool)
        first[1:] = (np.diff(self._step_of_row) != 0) | (np.diff(parent) != 0)
        self._position_of_row = np.cumsum(first) - 1

    def flat(self, plain: Callable[[str], str]) -> Flat:
        always = {"step": ("tokens", "nodes"), "token": ("token", "outcome"), "node": ("outcome",)}
        for table, numbers in (("step", STEP), ("token", TOKEN), ("node", NODE)):
            for name in (f"{table}.{each}" for each in (*always[table], *numbers)):
                if name not in _DERIVED:
                    kind = numbers.get(name.partition(".")[2])
                    self._flat[name] = self._column(name, self._absent(table, kind))
        self._alternatives()
        self._flat |= {name: self._stored[name] for name in ("vocabulary.id", PIECE)}
        for name, derive in _DERIVED.items():
            self._flat[name] = self._column(name, derive(self))
        pieces = map(plain, self._stored[PIECE].to_pylist())
        return self._flat | {PIECE: pa.array(pieces, pa.string())}

    def __getitem__(self, name: str) -> Any:
        return self._flat[name]

    def _absent(self, table: str, kind: Any) -> Any:
        return None if kind is None else np.full(self._counts[table], ABSENT[kind], kind)

    def _column(self, name: str, otherwise: Any) -> Any:
        table, stored = name.partition(".")[0], self._stored
        if name not in stored:
            if otherwise is None:
                raise KeyError(name)
            return otherwise
        values = stored[name]
        if f"{name}@" in stored:
            otherwise[np.cumsum(stored[f"{name}@"])] = values
            return otherwise
        if table == "token":
            values = self._by_row(values)
        return otherwise + values if name in _DERIVED and values.dtype.kind == "i" else values

    def _by_row(self, values: Any) -> Any:
        return values if len(values) == self._counts["token"] else values[self._position_of_row]

    def _alternatives(self) -> None:
        counts = self._stored["token.top"]
        _total(counts)
        at = self._by_row(np.arange(len(counts)))
        self._flat["token.top"] = full = counts[at]
        rows = np.repeat(starts(counts)[at], full) + index_in_group(full) if _total(full) else []
        self._flat |= {name: self._stored[name][np.array(rows, np.int64)] for name in _TOP}

    def position(self) -> Any:
        emitted = _EMITTED[self["token.outcome"]].astype(np.int64)
        return np.cumsum(emitted) - emitted

    def characters(self, *, end: bool) -> Any:
        """Start or end of each piece, if the text is the concatenation of all."""
        lengths = np.array(list(map(len, self[PIECE].to_pylist())), np.int64)
        emitted = lengths[self["token.token"]] * _EMITTED[self["token.outcome"]]
        return np.cumsum(emitted) - (0 if end else emitted)

    def alternative(self, number: int) -> Any:
        """The id of each row's alternative of this number; 0 if it has none."""
        counts = self["token.top"]
        there = counts > number
        ids = np.zeros(len(counts), np.int64)
        ids[there] = self["vocabulary.id"][self["top.token"][starts(counts)[there] + number]]
        return ids

    def ratio(self) -> Any:
        z1, z2 = self["token.z1"], self["token.z2"]
        with np.errstate(all="ignore"):
            return np.where(z1 > 0, z2 / z1, np.nan)

    def gap(self) -> Any:
        with np.errstate(all="ignore"):
            return self["token.z1"] - self["token.z2"]

    def uniforms(self) -> Any:
        """By output position, of runs that drew by inverse CDF; later runs have stored none."""
        position = self["token.position"]
        if position.min(initial=0) < 0 or position.max(initial=0) >= MAX_UNIFORMS:
            return np.full(len(position), np.nan)
        source, most = random.Random(self._seed), int(position.max(initial=0))
        return np.array([source.random() for _ in range((most // DRAWS + 1) * DRAWS)])[position]

    def probability(self) -> Any:
        """Of each row's token among its alternatives; nan if it is not one of them."""
        rows = numbered(self["token.top"])
        same = self["top.token"] == self["token.token"][rows]
        p = np.full(len(self["token.top"]), np.nan)
        p[rows[same]] = self["top.p"][same]
        return p

    def of_nodes(self, name: str, otherwise: float) -> Any:
        """Values of the drafted nodes from their tokens; ``otherwise`` for nodes without a token."""
        column, counts, number = self[f"token.{name}"], self["step.nodes"], self["token.node"]
        values = np.full(self._counts["node"], otherwise, column.dtype)
        (rows,) = np.nonzero((number > 0) & (number <= counts[self._step_of_row]))
        values[starts(counts)[self._step_of_row[rows]] + number[rows] - 1] = column[rows]
        return values


def _total(counts: Any) -> int:
    """Their sum. Raises OverflowError unless they are counts, and no more than a run has."""
    most = counts.max(initial=0)
    if counts.min(initial=0) < 0 or most > MAX_ROWS or (total := int(counts.sum())) > MAX_ROWS:
        raise OverflowError(
            f"a run had {MAX_ROWS:,} tokens, drafted tokens or alternatives at most"
        )
    return total


# In order of computation: each needs stored columns and those above it.
_DERIVED: Mapping[str, Callable[[_First], Any]] = {
    "token.position": _First.position,
    "token.start": partial(_First.characters, end=False),
    "token.end": partial(_First.characters, end=True),
    "token.own": lambda run: run["token.token"],
    "token.id1": partial(_First.alternative, number=0),
    "token.id2": partial(_First.alternative, number=1),
    "token.gap": _First.gap,
    "token.r": _First.ratio,
    "token.edge": lambda run: run["token.gap"].copy(),
    "token.u": _First.uniforms,
    "token.p": _First.probability,
    "step.drafted": lambda run: run["step.nodes"],
    "node.token": partial(_First.of_nodes, name="token", otherwise=0),
    "node.outcome": partial(_First.of_nodes, name="outcome", otherwise=_REJECTED),
    "node.p": partial(_First.of_nodes, name="p", otherwise=np.nan),
    "node.q": partial(_First.of_nodes, name="q", otherwise=np.nan),
    "node.parent": lambda run: index_in_group(run["step.nodes"]),
    "node.depth": lambda run: index_in_group(run["step.nodes"]) + 1,
}
