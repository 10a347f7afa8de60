"""Parquet exports: lossless, with the rows and columns of CSV, whole or not at all."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from mars_core.types import Alternative, Exchange, PromptConfig
from storage import RunStore, StorageError, write_parquet
from storage.schema.text import decode
from tests.traces import make_trace, same
from tests.unit.storage.exports import (
    NUMBERS,
    all_nodes,
    all_tokens,
    nodes_csv,
    parsed,
    peak,
    read_parquet,
    runs_csv,
    save,
    tokens_csv,
)


def test_parquet_is_lossless(store: RunStore, tmp_path: Path) -> None:
    words = ["=a", "\x00", "\ud800␛", "", " b", "\ud83d", "\r\n"]
    prompt = PromptConfig("\udfff=x\x00", system="␛0000", chat=False, stop=("\ud800", ""))
    trace = make_trace(rule="mars", new_tokens=60, words=words, prompt=prompt)
    token = replace(trace.steps[0].tokens[0], q=math.inf, top=(Alternative(3, "\ud800", math.nan),))
    step = replace(trace.steps[0], tokens=(token, *trace.steps[0].tokens[1:]))
    node = replace(step.nodes[0], p=math.nan, q=math.inf)
    trace = replace(trace, steps=(replace(step, nodes=(node, *step.nodes[1:])), *trace.steps[1:]))
    save(store, trace)
    write_parquet("runs", store, tmp_path / "runs.parquet")
    write_parquet("nodes", store, tmp_path / "nodes.parquet")
    write_parquet("tokens", store, tmp_path / "tokens.parquet")
    (run,) = read_parquet(tmp_path / "runs.parquet")
    texts = (decode(run["prompt"]), decode(run["system"]), tuple(map(decode, run["stop"])), decode(run["text"]))
    assert texts == (prompt.text, prompt.system, prompt.stop, trace.text)
    assert (run["chat"], run["seed"], dict(run["rule_parameters"])) == (False, 0, {"theta": 0.9})
    assert dict(run["environment"]) == trace.config.environment
    assert tuple(run["prompt_ids"]) == trace.prompt_ids
    assert same(tuple(run["acceptance_by_position"]), trace.summary.acceptance_by_position)
    for row, saved in zip(read_parquet(tmp_path / "tokens.parquet"), all_tokens(trace), strict=True):
        assert (decode(row["piece"]), decode(row["own_piece"])) == (saved.piece, saved.own_piece)
        assert all(same(row[name], getattr(saved, name)) for name in (*NUMBERS, "position", "rank"))
        assert row["outcome"] == saved.outcome
        assert same(tuple(Alternative(item["id"], decode(item["piece"]), item["p"]) for item in row["top"]), saved.top)
    for row, (_, at, drafted) in zip(read_parquet(tmp_path / "nodes.parquet"), all_nodes(trace), strict=True):
        assert (row["node"], decode(row["piece"]), row["outcome"]) == (at, drafted.piece, drafted.outcome)
        assert same((row["p"], row["q"]), (drafted.p, drafted.q))


def test_parquet_has_the_columns_and_rows_of_csv(
    store: RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.export.ROWS_A_GROUP", 50)
    monkeypatch.setattr("storage.export.tables.TOKENS_A_TABLE", 50)
    save(store, make_trace(new_tokens=100), make_trace(rule="mars", new_tokens=100))
    write_parquet("tokens", store, tmp_path / "tokens.parquet")
    file = pq.ParquetFile(tmp_path / "tokens.parquet")
    rows = parsed(tokens_csv(store))
    assert file.schema_arrow.names == list(rows[0])
    assert file.metadata.num_rows == len(rows)
    assert file.num_row_groups == 2
    assert file.schema_arrow.metadata[b"schema_version"] == b"6"
    file.close()


def test_empty_store_exports_headers(store: RunStore, tmp_path: Path) -> None:
    assert [write(store).count("\n") for write in (runs_csv, tokens_csv, nodes_csv)] == [1, 1, 1]
    write_parquet("nodes", store, tmp_path / "nodes.parquet")
    assert read_parquet(tmp_path / "nodes.parquet") == []
    write_parquet("runs", store, tmp_path / "runs.parquet")
    assert read_parquet(tmp_path / "runs.parquet") == []


def test_failed_parquet_leaves_no_file(sqlite_store: RunStore, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"The Parquet file was not written: .*missing"):
        write_parquet("runs", sqlite_store, tmp_path / "missing" / "runs.parquet")
    (tmp_path / "taken.parquet").mkdir()
    with pytest.raises(StorageError, match="The Parquet file was not written"):
        write_parquet("runs", sqlite_store, tmp_path / "taken.parquet")
    assert list(tmp_path.glob("*.part")) == []


def test_given_tokens_are_in_the_row_of_their_run(store: RunStore, tmp_path: Path) -> None:
    trace = make_trace(new_tokens=5, prefix=(2, 0, 4), words=["a", "\x00", "=1", "b", "\ud800"])
    save(store, trace)
    (row,) = parsed(runs_csv(store))
    given = [{"id": token.id, "piece": token.piece, "start": token.start, "end": token.end} for token in trace.given]
    assert [token["piece"] for token in json.loads(row["given"])] == [token.piece for token in trace.given]
    assert json.loads(row["prefix"]) == [2, 0, 4]
    write_parquet("runs", store, tmp_path / "runs.parquet")
    (exact,) = read_parquet(tmp_path / "runs.parquet")
    assert [token | {"piece": decode(token["piece"])} for token in exact["given"]] == given
    assert list(exact) == list(row)


def test_earlier_turns_are_in_the_row_of_their_run(sqlite_store: RunStore, tmp_path: Path) -> None:
    history = (Exchange("one\x00", "=1"), Exchange("two", "\ud800"))
    save(sqlite_store, make_trace(new_tokens=3, prompt=PromptConfig("three", history=history)))
    (row,) = parsed(runs_csv(sqlite_store))
    assert json.loads(row["history"]) == [turn._asdict() for turn in history]
    write_parquet("runs", sqlite_store, tmp_path / "runs.parquet")
    (exact,) = read_parquet(tmp_path / "runs.parquet")
    assert [Exchange(*map(decode, turn.values())) for turn in exact["history"]] == list(history)


def test_parquet_takes_constant_memory(sqlite_store: RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.export.ROWS_A_GROUP", 400)
    monkeypatch.setattr("storage.export.tables.TOKENS_A_TABLE", 300)
    trace = make_trace(new_tokens=120)
    for _ in range(8):
        save(sqlite_store, trace)
    export = partial(write_parquet, "tokens", sqlite_store, tmp_path / "tokens.parquet")
    export()
    few = peak(export)
    for _ in range(16):
        save(sqlite_store, trace)
    assert peak(export) < 1.25 * few  # what is kept would add more than a half
