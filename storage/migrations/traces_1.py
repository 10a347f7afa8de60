"""Reads the steps of a run in the first format, which left out what follows from other columns."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from storage.traces.flat import (
    OUTCOMES,
    PIECE,
    Flat,
    index_in_group,
    numbered,
    starts,
)
from storage.traces.packing import columns_of

MAX_ROWS = 2**21  # tokens, drafted nodes or alternatives of a run
MAX_UNIFORMS = 2**20  # of a run; longer runs stored their uniforms
DRAWS = 256  # uniforms were drawn in multiples of this number
_EMITTED = np.array([outcome != "rejected" for outcome in OUTCOMES])
_REJECTED = OUTCOMES.index("rejected")


def read_first(data: bytes, seed: int, plain: Callable[[str], str]) -> Flat:
    """Return the columns of a run that were stored or follow from those, its pieces made ``plain``.
    Raises LookupError, ValueError and others for damaged bytes."""
    run = _First(columns_of(data))
    run.add_texts()
    run.add_alternatives()
    run.add_numbers(seed)
    run.add_nodes()
    pieces = map(plain, run.flat[PIECE].to_pylist())
    return run.flat | {PIECE: pa.array(pieces, pa.string())}


class _First:
    """``flat``: the columns so far, without those that follow from others. A value that differs from
    the derived one was stored: integers as differences, in others the differing values with the
    distances of their rows in a column ``NAME@``. What the target has at a position, which a rejected
    token and the one emitted instead share, was stored once."""

    def __init__(self, stored: Flat) -> None:
        self._stored, steps, parent = stored, stored["step.tokens"], stored["token.parent"]
        self._tokens, self._nodes = _total(steps), _total(stored["step.nodes"])
        self._step_of_row = numbered(steps)
        first = np.ones(len(parent), bool)
        first[1:] = (np.diff(self._step_of_row) != 0) | (np.diff(parent) != 0)
        self._position_of_row = np.cumsum(first) - 1
        self.flat: Flat = {}
        for name in (name for name in stored if "@" not in name and f"{name}@" not in stored):
            by_row = name.startswith("token.") and name != "token.top"
            self.flat[name] = self._by_row(stored[name]) if by_row else stored[name]

    def _by_row(self, values: Any) -> Any:
        return values if len(values) == self._tokens else values[self._position_of_row]

    def _add(self, name: str, derived: Any) -> None:
        """Add the column from its derived values and the stored ones."""
        values, at = self._stored.get(name), self._stored.get(f"{name}@")
        if at is not None:
            derived = derived.copy()
            derived[np.cumsum(at)] = values
        elif values is not None:
            values = self._by_row(values) if name.startswith("token.") else values
            derived = derived + values if derived.dtype.kind == "i" else values
        self.flat[name] = derived

    def add_texts(self) -> None:
        """Positions, and characters if the text is the concatenation of all pieces."""
        emitted = _EMITTED[self.flat["token.outcome"]].astype(np.int64)
        self._add("token.position", np.cumsum(emitted) - emitted)
        lengths = np.array(list(map(len, self.flat[PIECE].to_pylist())), np.int64)
        written = lengths[self.flat["token.token"]] * emitted
        self._add("token.start", np.cumsum(written) - written)
        self._add("token.end", np.cumsum(written))
        self._add("token.own", self.flat["token.token"])

    def add_alternatives(self) -> None:
        """Add those of each row: the two likeliest tokens, and the token's probability if it is
        one."""
        flat, counts = self.flat, self._stored["token.top"]
        _total(counts)
        at = self._by_row(np.arange(len(counts)))
        flat["token.top"] = full = counts[at]
        _total(full)
        alternatives = np.repeat(starts(counts)[at], full) + index_in_group(full)
        for name in ("top.token", "top.p"):
            flat[name] = flat[name][alternatives.astype(np.int64)]
        for number, name in enumerate(("token.id1", "token.id2")):
            there = full > number
            ids = np.zeros(len(full), np.int64)
            ids[there] = flat["vocabulary.id"][flat["top.token"][starts(full)[there] + number]]
            self._add(name, ids)
        rows, p = numbered(full), np.full(len(full), np.nan)
        same = flat["top.token"] == flat["token.token"][rows]
        p[rows[same]] = flat["top.p"][same]
        self._add("token.p", p)

    def add_numbers(self, seed: int) -> None:
        """Add the numbers of the logits, and uniforms, by output position, of runs that drew by
        inverse CDF: later ones have stored none."""
        z1, z2 = self.flat["token.z1"], self.flat["token.z2"]
        with np.errstate(all="ignore"):
            self._add("token.gap", z1 - z2)
            self._add("token.r", np.where(z1 > 0, z2 / z1, np.nan))
        self._add("token.edge", self.flat["token.gap"])
        position, u = self.flat["token.position"], np.full(self._tokens, np.nan)
        most = int(position.max(initial=0))
        if position.min(initial=0) >= 0 and most < MAX_UNIFORMS:
            source = random.Random(seed)
            u = np.array([source.random() for _ in range((most // DRAWS + 1) * DRAWS)])[position]
        self._add("token.u", u)

    def add_nodes(self) -> None:
        """Add what drafted nodes share with their tokens; those without one were rejected."""
        flat, counts = self.flat, self.flat["step.nodes"]
        number = flat["token.node"]
        (rows,) = np.nonzero((number > 0) & (number <= counts[self._step_of_row]))
        nodes = starts(counts)[self._step_of_row[rows]] + number[rows] - 1
        missing = {"token": 0, "outcome": _REJECTED, "p": np.nan, "q": np.nan}
        for name, otherwise in missing.items():
            column = flat[f"token.{name}"]
            values = np.full(self._nodes, otherwise, column.dtype)
            values[nodes] = column[rows]
            self._add(f"node.{name}", values)
        self._add("node.parent", index_in_group(counts))
        self._add("node.depth", index_in_group(counts) + 1)
        self._add("step.drafted", counts)


def _total(counts: Any) -> int:
    """Return their sum. Raises OverflowError unless they are counts, and no more than a run has."""
    total = sum(counts.tolist())
    if counts.min(initial=0) < 0 or total > MAX_ROWS:
        raise OverflowError(
            f"a run had {MAX_ROWS:,} tokens, drafted tokens or alternatives at most"
        )
    return int(total)
