"""Exports: every run and token once, readable by other programs, harmless in a spreadsheet, in
constant memory."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Callable
from dataclasses import fields, replace
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mars_core.types import Alternative, DraftNode, Outcome, Token, Trace
from storage import Choice, RunStore, write_everything, write_parquet
from storage.export.cells import cell
from storage.export.columns import STRUCTS
from storage.export.tables import EXPORTS
from storage.schema.text import mapped, storable
from storage.schema.trace import FIELDS, PROMPT
from storage.traces.flat import RENAMED
from tests.traces import make_trace, make_tree_trace, same
from tests.unit.storage.exports import csv_of, parsed, peak, read_parquet, replaced, save
from tests.unit.storage.test_counterfactuals import TWO as FOLLOWED
from tests.unit.storage.test_roundtrip import (
    HOSTILE,
    TRACES,
    hostile_trace,
    odd_numbers,
)

DANGEROUS = (
    '=HYPERLINK("http://x")',
    "+1",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    " =1",
    "\ufeff\u200b =1",
    "＝1",  # noqa: RUF001
    "－1",  # noqa: RUF001
    "＋1",  # noqa: RUF001
    "＠x",  # noqa: RUF001
)
HARMLESS = ("", "plain", " 1", "\u200b1", "'=1", "1-2", "a\r\nb", 'say "yes", then', "日本")
UNREADABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


def with_alternatives() -> Trace:
    """One token with alternatives that JSON has no numbers or plain texts for, the others without
    any."""
    pieces = ("a\x00", "\ud800␛", '"\\\n,]', "日本\x85", "", "=1")
    ids, p = (0, 2**62, 3, -(2**62), 2**63 - 1, 3), (0.5, math.nan, math.inf, -math.inf, 1e-300, 0)
    top = tuple(map(Alternative, ids, pieces, map(float, p)))
    trace = make_trace(rule="none", new_tokens=3)
    tops = ((), top, ())
    steps = [
        replace(step, tokens=(replace(step.tokens[0], top=top),))
        for step, top in zip(trace.steps, tops, strict=True)
    ]
    return replace(trace, steps=tuple(steps))


def with_odds() -> Trace:
    tree = make_tree_trace()
    nodes = [[replace(node, odds=node.q / 2) for node in step.nodes] for step in tree.steps]
    steps = zip(tree.steps, nodes, strict=True)
    return replace(tree, steps=tuple(replace(step, nodes=tuple(each)) for step, each in steps))


def read_cell(column: pa.Field, text: str) -> Any:
    if column.name == "top":
        return json.loads(text)
    return float(text or "nan") if pa.types.is_floating(column.type) else text


def exact(kind: str, value: Any) -> Any:
    """What a value in Parquet stands for."""
    value = [list(item.values()) for item in value] if kind in STRUCTS else value
    return json.loads(value) if kind == "JSON" else value


def plain(kind: str, value: Any) -> Any:
    """A value of a trace, as lists, texts and numbers; JSON has no infinity and no nan."""

    def number(value: Any) -> Any:
        odd = kind == "JSON" and isinstance(value, float) and not math.isfinite(value)
        return str(value) if odd else value

    return mapped(value, storable, number)


def expected(column: pa.Field, value: Any) -> Any:
    """Of a value in Parquet."""
    if column.name in ("piece", "own_piece"):
        return json.dumps(value)
    return read_cell(column, cell(value))


def test_csv_says_what_parquet_has(
    lasting_store: RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cell by cell, whatever it holds, and no cell breaks a reader."""
    monkeypatch.setattr("storage.export.ROWS_A_GROUP", 50)
    monkeypatch.setattr("storage.export.tables.TOKENS_A_TABLE", 50)
    hostile = "".join(HOSTILE)
    short = [make() for name, make in TRACES.items() if name != "long prompt"]
    odd = odd_numbers(), with_alternatives(), with_odds()
    for trace in (*short, *odd, hostile_trace(hostile), hostile_trace("=1")):
        other = replace(trace, config=replace(trace.config, seed=1))
        made = save(lasting_store, trace, other)
        vote = lasting_store.add_vote(made, left_lane=1, right_lane=0, choice=Choice.LEFT)
        lasting_store.comment_vote(vote, "@x")
        run = lasting_store.load(made).runs[0].id
        lasting_store.save_counterfactuals(run, [FOLLOWED])
    lasting_store.annotate(made, name="=1", tags=["=2"], comment=hostile)
    for name, export in EXPORTS.items():
        text, path = csv_of(name, lasting_store), tmp_path / name
        write_parquet(name, lasting_store, path)
        assert text.startswith("schema_version,comparison_id,") and text.endswith("\n")
        assert not UNREADABLE.search(text)
        rows, there = parsed(text), read_parquet(path)
        assert [*rows[0]] == [*there[0]] == export.schema.names
        for row, values in zip(rows, there, strict=True):
            for column in export.schema:
                read = read_cell(column, row[column.name])
                wanted = expected(column, values[column.name])
                # of the numbers in JSON some are whole
                assert same(read, wanted) or (column.name == "top" and read == wanted)
    with pq.ParquetFile(tmp_path / "tokens") as file:
        assert file.num_row_groups > 5 and file.schema_arrow.metadata[b"schema_version"] == b"9"


@pytest.mark.parametrize("name", ["runs", "tokens", "nodes"])
def test_parquet_has_exactly_what_was_saved(
    name: str, sqlite_store: RunStore, tmp_path: Path
) -> None:
    traces = [make() for make in TRACES.values()]
    traces += [hostile_trace("".join(HOSTILE)), odd_numbers(), with_alternatives(), with_odds()]
    recorded = ({}, {"tv": "bound"}, {"server": "vllm"})
    traces += [replaced(traces[0], environment=each) for each in recorded]
    for trace in traces:
        made = save(sqlite_store, trace)
    notes = {"name": "=1\ud800", "tags": ["a\x00", "b"], "comment": "".join(HOSTILE)}
    sqlite_store.annotate(made, **notes)
    write_parquet(name, sqlite_store, tmp_path / name)
    if name == "runs":
        fields_of: dict[str, Callable[[Any], Any]] = {each.column: each.of for each in FIELDS}
        fields_of |= {
            column: attrgetter(f"config.prompt.{path}")
            for column, path in zip(PROMPT, ("text", *PROMPT[1:]), strict=True)
        }
        saved: list[Any] = traces
    else:
        of_kind = fields(Token if name == "tokens" else DraftNode)
        fields_of = {RENAMED.get(each.name, each.name): attrgetter(each.name) for each in of_kind}
        saved = [item for trace in traces for step in trace.steps for item in getattr(step, name)]
    kinds = {each.name: each.kind for each in EXPORTS[name].columns}
    rows = read_parquet(tmp_path / name)
    assert len(rows) == len(saved) > 0
    if name != "nodes":
        kinds = {row["run_id"]: row["tv_kind"] for row in rows}
        assert [*kinds.values()][-3:] == ["exact", "bound", "unknown"]
    for column in fields_of.keys() & kinds.keys():
        kind, of = kinds[column], fields_of[column]
        assert same(
            [exact(kind, row[column]) for row in rows], [plain(kind, of(item)) for item in saved]
        )
    if name == "runs":
        assert {column: rows[-1][column] for column in notes} == mapped(notes, storable)


def test_tokens_and_nodes_say_where_they_are(store: RunStore) -> None:
    """What a trace has not in its tokens and nodes."""
    trace = make_tree_trace(prefix=(1, 3))
    save(store, trace)
    tokens, nodes = (parsed(csv_of(name, store)) for name in ("tokens", "nodes"))
    of_tokens = [
        (step, ordinal, token) for step in trace.steps for ordinal, token in enumerate(step.tokens)
    ]
    written = ""
    for row, (step, ordinal, token) in zip(tokens, of_tokens, strict=True):
        assert (row["step"], row["ordinal"]) == (str(step.index), str(ordinal))
        for name in ("drafted", "kept", "draft_s", "verify_s", "elapsed_s"):
            assert float(row[f"step_{name}"]) == getattr(step, name)
        piece = json.loads(row["piece"])
        if token.outcome is not Outcome.REJECTED:
            assert trace.text[int(row["char_start"]) : int(row["char_end"])] == piece
            written += piece
    assert written and trace.text.endswith(written)
    at = [(step, number) for step in trace.steps for number in range(1, len(step.nodes) + 1)]
    for row, (step, number) in zip(nodes, at, strict=True):
        judged = any(token.node == number for token in step.tokens)
        named = (row["step"], row["node"], row["judged"])
        assert named == (str(step.index), str(number), str(judged).lower())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((text, text) for text in HARMLESS),
        *((text, f"'{text}") for text in DANGEROUS),
        (-1.5, "-1.5"),
        (-7, "-7"),
        (math.nan, ""),
        (-math.inf, "-inf"),
        (None, ""),
        (True, "true"),
        ([math.nan, -math.inf, 0.5], '[null, "-inf", 0.5]'),
        ({"θ": -0.5}, '{"θ": -0.5}'),
        ('a\x00b\ud800\x1b[31m\x85\x7f\r\n"', 'a\\u0000b\\ud800\\u001b[31m\\u0085\\u007f\r\n"'),
        (datetime(2026, 1, 2, 3, 4, 5, 6, UTC), "2026-01-02T03:04:05.000006Z"),
    ],
)
def test_formulas_are_guarded_and_other_values_not(value: object, text: str) -> None:
    assert cell(value) == text


def test_nothing_invisible_hides_a_formula() -> None:
    """What cannot be printed is written visibly."""
    hidden = [
        chr(n)
        for n in range(0x110000)
        if unicodedata.category(chr(n)) in ("Cc", "Cf", "Zs", "Zl", "Zp", "Mn")
    ]
    hidden += ["\u115f", "\u3164", "\uffa0", "\u2800", "\u200b\ufeff\u00a0"]
    for start in "=+-@＝＋－＠﹦﹢﹣﹫−":  # noqa: RUF001
        assert not [c for c in hidden if not cell(f"{c}{start}1").startswith(("'", "\\u"))]


def test_exports_take_constant_memory(
    sqlite_store: RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every table, as CSV and as Parquet."""

    def export() -> None:
        write_everything(sqlite_store, tmp_path / "all.zip")

    monkeypatch.setattr("storage.export.tables.TOKENS_A_TABLE", 50)
    monkeypatch.setattr("storage.export.reading.COMPARISONS_A_READ", 2)
    monkeypatch.setattr("storage.export.ROWS_A_GROUP", 100)
    trace = make_trace(new_tokens=30, prompt="p" * 5000)
    for _ in range(8):  # enough for what is read ahead
        save(sqlite_store, trace)
    export()  # compiled statements are cached
    few = peak(export)
    for _ in range(48):
        save(sqlite_store, trace)
    many = peak(export)
    # What is read ahead is a matter of chance, a third more or less; a leak would nearly triple it.
    assert many < 2 * few
