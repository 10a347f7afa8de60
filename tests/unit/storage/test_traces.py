"""The columnar form of a run: nothing is lost, whatever follows from what; damage is seen."""

from __future__ import annotations

import base64
import json
import math
import re
import zlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mars_core.types import Trace
from storage import RunStore
from storage.migrations.traces_1 import read_first
from storage.traces.flat import OUTCOMES, PIECE, WORDS, Flat, flatten, steps_of
from storage.traces.packing import VERSION, opened, pack, sealed, unpack, whole
from tests.traces import make_tree_trace
from tests.unit.storage.exports import failing
from tests.unit.storage.test_migrations import plain
from tests.unit.storage.test_roundtrip import TRACES as ROUND_TRIPS

DATA = Path(__file__).parents[2] / "data"
COUNTS = ("step.tokens", "step.nodes", "token.top")
FIXED = (*COUNTS, PIECE)
HOSTILE = ["", "\x01", "␛", "=1\r\n", "日本", "␛0000"]
CHAIN, TREE, GREEDY, GIVEN = "mars at 1.0", "tree at 0.0", "mars at 0.0", "given tokens"
TRACES = {name: make() for name, make in ROUND_TRIPS.items() if name != "long prompt"}
TRACES["hostile"] = make_tree_trace(new_tokens=9, words=HOSTILE)


def flat_of(trace: Trace) -> Flat:
    return flatten(trace.steps)


def again(flat: Flat) -> Flat:
    return unpack([pack(flat)])


def assert_same(actual: Flat, flat: Flat) -> None:
    """To the last bit, but for the bits of a nan."""
    assert {name for name in actual if not name.startswith("run.")} == flat.keys()
    for name, column in flat.items():
        if name == PIECE:
            assert actual[name].to_pylist() == column.to_pylist()
        else:
            assert exact(actual[name]) == exact(column), name


def exact(column: Any) -> list[str]:
    return [
        repr(float(value)) if isinstance(value, float) else repr(int(value)) for value in column
    ]


@st.composite
def any_flat(draw: st.DrawFn) -> Flat:
    flat = flat_of(TRACES[draw(st.sampled_from((CHAIN, TREE, GREEDY, GIVEN)))])
    names = [name for name in flat if not name.startswith("run.") and name not in FIXED]
    for name in draw(st.sets(st.sampled_from(names), max_size=4)):
        ends = -(2**63), 2**63 - 1
        if name in WORDS:
            ends = 0, len(flat["vocabulary.id"]) - 1
        elif name.endswith("outcome"):
            ends = 0, len(OUTCOMES) - 1
        value = st.floats() if flat[name].dtype.kind == "f" else st.integers(*ends)
        values = draw(st.lists(value, max_size=len(flat[name])))
        flat = flat | {name: flat[name].copy()}
        flat[name][: len(values)] = values
    return flat


@settings(max_examples=150)
@given(flat=any_flat())
def test_any_numbers_come_back(flat: Flat) -> None:
    assert_same(again(flat), flat)


def test_every_damaged_byte_is_seen() -> None:
    data = pack(flat_of(TRACES[CHAIN]))
    damaged = [
        data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :] for at in range(len(data))
    ]
    for bad in (
        *damaged,
        *(data[:at] for at in range(0, len(data), 97)),
        data + b"\0",
        bytes(len(data)),
        b"",
    ):
        with pytest.raises(LookupError, match="the steps of a run are damaged"):
            unpack([bad])


NEWER = ("raw_z1", "raw_z2", "parameter", "regret", "overshoot", "rule_logprob")  # of tokens


def unescaped(text: str) -> str:
    """What the first format stored, as it is stored now."""
    return re.sub("␛([0-9a-f]{4})", lambda m: "␛" if m[1] == "241b" else "\ufffd", text)


def read_as_first(data: bytes) -> Flat:
    return whole(read_first(data, 3, unescaped))


READERS = {1: read_as_first, 2: lambda data: unpack([data])}


@pytest.mark.parametrize("path", sorted(DATA.glob("traces-*.json")), ids=lambda path: path.stem)
def test_traces_of_every_version_are_read_as_they_were_written(path: Path) -> None:
    """Made by the release that began it: never edit one, add one for a new version."""
    read_version = READERS[int(path.stem.removeprefix("traces-"))]
    for made in json.loads(path.read_text(encoding="utf-8")):
        steps = steps_of(read_version(base64.b64decode(made["packed"])))
        read = [asdict(step) for step in steps]
        if read_version is read_as_first:
            for token in (token for step in read for token in step["tokens"]):
                assert all(math.isnan(token.pop(name)) for name in NEWER), "it did not have these"
            assert all(math.isnan(node.pop("odds")) for step in read for node in step["nodes"])
        in_order = [json.dumps(plain(steps), sort_keys=True) for steps in (read, made["steps"])]
        assert in_order[0] == in_order[1]
    assert {int(each.stem.removeprefix("traces-")) for each in DATA.glob("traces-*.json")} == {
        *range(1, VERSION + 1)
    }


def compressed(batch: pa.RecordBatch) -> pa.Buffer:
    """A stream in which Arrow has compressed every column once more."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(
        sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")
    ) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def bad_offsets(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A piece that ends outside of the data."""
    pieces = pa.StringArray.from_buffers(
        2, pa.array([0, 9, 5], pa.int32()).buffers()[1], pa.py_buffer(b"abcde")
    )
    return batch.append_column(
        "more", pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), pieces)
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda batch: batch.append_column("more", pa.array([bytes(2**27)])),
        lambda batch: batch.append_column(
            "more", pa.ListArray.from_arrays([0, 2**24], np.zeros(2**24, np.int64))
        ),
        lambda batch: batch.append_column("more", pa.array([[None] * 9], pa.list_(pa.null()))),
        lambda batch: batch.append_column("more", pa.array([[["x"]]])),
        lambda batch: pa.record_batch(
            [pa.concat_arrays([each, each]) for each in batch.columns], batch.schema.names
        ),
        lambda batch: batch.slice(1),
        bad_offsets,
        compressed,
        *(
            lambda batch, name=name, value=value: batch.set_column(
                batch.schema.names.index(name), name, pa.array([[value] * len(batch[name][0])])
            )
            for name in COUNTS
            for value in (2**62, 2**31, 2**22, -1)
        ),
    ],
)
def test_sizes_of_stored_traces_are_checked(change: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such bytes may come from another instance, by a backup."""
    packed = pack(flat_of(TRACES[TREE]))
    monkeypatch.setattr("storage.traces.packing.MAX_BYTES", 2**40)
    changed = change(opened(packed))
    if isinstance(changed, pa.Buffer):
        data = pa.Codec("zstd").compress(changed, asbytes=True)
        changed = zlib.crc32(data).to_bytes(4) + data
    else:
        changed = sealed(changed)
    monkeypatch.undo()
    assert len(changed) < 2 * len(packed) + 20_000, "it is no bomb"
    with pytest.raises(LookupError, match=r"damaged \((?!KeyError)"):
        unpack([packed, changed])


def test_a_run_too_large_to_be_read_is_not_saved(
    sqlite_store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = TRACES[TREE]
    comparison_id = sqlite_store.new_comparison(trace.config.prompt)
    monkeypatch.setattr("storage.traces.packing.MAX_BYTES", 20)
    with failing(r"The run was not saved: .* are the most"):
        sqlite_store.save_run(comparison_id, trace, lane=0, order=0)
