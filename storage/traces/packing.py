"""The steps of a run as one row of an Arrow record batch (its columns are lists), which becomes
bytes (sealing). Lossless.

Numbers are stored in the smallest type that is exact for all: most were computed in float32.
Columns that follow from others are left out and computed when read (derived.py). Values that differ
from the derived ones are stored: all differences for integers, for others the differing values,
with their indices in a column ``NAME@``. The target's values at a position (BY_POSITION, TOP) are stored
once, though a rejected token and the one emitted instead both have them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from storage.traces.derived import DERIVED, TraceShape, check_counts
from storage.traces.flat import ABSENT, NODE, STEP, TOKEN, Flat, index_in_group, numbered, starts
from storage.traces.sealing import opened, sealed

VERSION = 1  # of the format; added or removed columns do not change it
PIECE = "vocabulary.piece"
BY_POSITION = tuple(
    f"token.{name}" for name in ("z1", "z2", "raw_z1", "raw_z2", "entropy", "coin", "edge", "u")
)
TOP = ("top.token", "top.p")
_ALWAYS = {
    "step": ("tokens", "nodes"),
    "token": ("token", "outcome"),
    "node": ("outcome",),
}  # beside the numbers
_FIELDS: Mapping[str, Mapping[str, Any]] = {"step": STEP, "token": TOKEN, "node": NODE}
_KINDS = [(kind, np.iinfo(kind).min, np.iinfo(kind).max) for kind in (np.int8, np.int16, np.int32)]


def pack(flat: Flat) -> bytes:
    """``flat``: of one run."""
    shape = TraceShape(flat)
    columns = {
        name: column
        for name, column in flat.items()
        if not name.startswith("run.") and name not in DERIVED
    }
    for name, derive in DERIVED.items():
        columns |= _rest(name, flat[name], derive(flat, shape))
    if not shape.first.all():
        for name in BY_POSITION:
            if name in columns and f"{name}@" not in columns:
                short = columns[name][shape.first]
                columns[name] = (
                    short
                    if _alike(short[shape.position_of_row], columns[name]).all()
                    else columns[name]
                )
        here = np.repeat(shape.first, flat["token.top"])
        short = {"token.top": flat["token.top"][shape.first]} | {
            name: flat[name][here] for name in TOP
        }
        again = _repeated_tops(short, shape.position_of_row, shape.run_of_row)
        if all(
            len(again[name]) == len(flat[name]) and _alike(again[name], flat[name]).all()
            for name in again
        ):
            columns |= short
    arrays = {
        name: column if name == PIECE else pa.array(_small(column))
        for name, column in columns.items()
    }
    lists = [
        pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
        for values in arrays.values()
    ]
    return sealed(pa.record_batch(lists, names=list(arrays)))


def checked(version: int, data: bytes) -> bytes:
    """``data``, if ``unpack`` can read it. Raises LookupError for an unknown version of the
    format."""
    if version != VERSION:
        raise LookupError(
            f"the steps of a run have a format ({version}) that this version does not know"
        )
    return data


def unpack(packed: Sequence[bytes], seeds: Sequence[int]) -> Flat:
    """The columns of these runs, one after the other. Raises LookupError for damaged bytes."""
    try:
        tables = [pa.Table.from_batches([opened(data)]) for data in packed]
        return _joined(pa.concat_tables(tables, promote_options="permissive"), seeds)
    except (
        pa.ArrowException,
        MemoryError,
        OSError,
        OverflowError,
        StopIteration,
        LookupError,
        TypeError,
        ValueError,
    ) as error:
        raise LookupError(f"the steps of a run are damaged ({type(error).__name__})") from None


class _Column:
    """A stored column of several runs: ``values``: of all; ``start``, ``counts``: [runs], the
    values of each; 0 where it has none."""

    def __init__(self, table: pa.Table, name: str) -> None:
        column = table[name].chunk(0) if len(table) == 1 else table[name].combine_chunks()
        offsets = column.offsets.to_numpy().astype(np.int64)
        self.start, self.counts = offsets[:-1], np.diff(offsets)
        self.values = column.values
        if name != PIECE:
            values = self.values.to_numpy()
            self.values = values.astype(
                np.float64 if values.dtype.kind == "f" else np.int64, copy=False
            )


def _joined(table: pa.Table, seeds: Sequence[int]) -> Flat:
    """The flat columns of the runs in the rows of ``table``."""
    stored = {name: _Column(table, name) for name in table.column_names}
    flat: Flat = {"run.seed": np.array(seeds, object), "run.steps": stored["step.tokens"].counts}
    flat["run.vocabulary"] = stored[PIECE].counts
    for name in (PIECE, "vocabulary.id", "step.tokens", "step.nodes", "token.parent"):
        flat[name] = stored[name].values
    shape = TraceShape(flat)
    restored = _Restored(stored, shape, flat["run.steps"])
    for group, numbers in _FIELDS.items():
        names = (f"{group}.{name}" for name in (*_ALWAYS[group], *numbers))
        flat |= {name: restored.column(name) for name in names if name not in DERIVED}
    start = shape.vocabulary_start[shape.run_of_row]
    flat["token.token"] = flat["token.token"] + start
    tops = {name: stored[name].values for name in ("token.top", *TOP)}
    at = restored.index(stored["token.top"], shape.counts > 0)
    flat |= _repeated_tops(tops, at, shape.run_of_row)
    flat["top.token"] = flat["top.token"] + np.repeat(start, flat["token.top"])
    for name, derive in DERIVED.items():
        flat[name] = restored.column(name, derive(flat, shape))
    return flat


class _Restored:
    """Columns of several runs, from stored values and derived ones."""

    def __init__(self, stored: Mapping[str, _Column], shape: TraceShape, steps: Any) -> None:
        self._stored, self._shape = stored, shape
        self._counts = {"step": steps, "token": shape.counts, "node": shape.nodes}  # [runs]
        self._known: dict[bytes, Any] = {}

    def index(self, column: _Column, there: Any) -> Any:
        """Where the value of each token is, of runs that are ``there``: with fewer values than rows
        they have one per position."""
        key, shape = column.counts.tobytes() + there.tobytes(), self._shape
        if key not in self._known:
            short = there & (column.counts != shape.counts)
            number = shape.position_of_row - shape.position_of_row[shape.row_start]
            row = np.where(short[shape.run_of_row], number, index_in_group(shape.counts))
            row = row + column.start[shape.run_of_row]
            self._known[key] = row[there[shape.run_of_row]]
        return self._known[key]

    def column(self, name: str, derived: Any = None) -> Any:
        """All values of a column; of derived integers the differences are stored."""
        group, _, field = name.partition(".")
        column, counts = self._stored.get(name), self._counts[group]
        if derived is None and (column is None or len(column.values) < counts.sum()):
            kind = _FIELDS[group][field]
            derived = np.full(counts.sum(), ABSENT[kind], kind)
        if column is None:
            return derived
        add = name in DERIVED and derived.dtype.kind == "i"
        there, some = column.counts > 0, self._stored.get(f"{name}@")
        if some is None and len(column.values) == counts.sum():
            return derived + column.values if add else column.values
        values = derived.copy()
        if some is not None:
            run, total = numbered(some.counts), np.cumsum(some.values)
            rows = total + (starts(counts) - np.concatenate([[0], total])[some.start])[run]
            values[rows] = column.values[column.start[run] + index_in_group(some.counts)]
            there = there & (some.counts == 0)
        at = self.index(column, there) if group == "token" else there[numbered(column.counts)]
        rows, new = there[numbered(counts)], column.values[at]
        values[rows] = values[rows] + new if add else new
        return values


def _small(column: Any) -> Any:
    """The column in the smallest type that is exact for every number."""
    if column.dtype.kind == "f":
        with np.errstate(over="ignore"):
            short = column.astype(np.float32)
        return short if ((short == column) | (column != column)).all() else column
    low, high = (column.min(), column.max()) if column.size else (0, 0)
    return column.astype(
        next((kind for kind, least, most in _KINDS if least <= low and high <= most), np.int64)
    )


def _alike(one: Any, other: Any) -> Any:
    """Whether values have the same bits, or both are nan."""
    same = one.view(np.int64) == other.view(np.int64)
    return same if same.all() else same | (np.isnan(one) & np.isnan(other))


def _rest(name: str, column: Any, derived: Any) -> Flat:
    """The part of a derivable column to store: empty if it equals the derived values."""
    if column.dtype.kind != "f":
        return {name: column - derived} if (column != derived).any() else {}
    (other,) = np.nonzero(~_alike(column, derived))
    if 2 * len(other) > len(column):
        return {name: column}
    return {name: column[other], f"{name}@": np.diff(other, prepend=0)} if len(other) else {}


def _repeated_tops(tops: Mapping[str, Any], index: Any, run_of_row: Any) -> Flat:
    """The alternatives of every row, from those at ``index`` [rows] in ``tops``. Raises
    OverflowError."""
    counts = tops["token.top"]
    full = counts[index]
    check_counts(counts, np.bincount(run_of_row, full))
    at = np.repeat(starts(counts)[index], full) + index_in_group(full)
    return {"token.top": full} | {name: tops[name][at] for name in TOP}
