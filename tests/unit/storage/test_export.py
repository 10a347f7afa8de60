"""Exports: every run and token once, readable by other programs, harmless in a spreadsheet, in
constant memory."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mars_core.types import Alternative, Exchange, Outcome, PromptConfig, RuleConfig, TreeShape
from storage import RunStore, StorageError, write_csv, write_everything, write_parquet
from storage.export.cells import cell, guarded
from storage.export.tables import EXPORTS
from tests.traces import WORDS, make_trace, make_tree_trace, same
from tests.unit.storage.exports import (
    NUMBERS,
    all_nodes,
    all_tokens,
    nodes_csv,
    number,
    parsed,
    peak,
    pieces,
    read_parquet,
    runs_csv,
    save,
    tokens_csv,
)

SUMMARY = (
    "tau",
    "acceptance_rate",
    "tv_mean",
    "tv_max",
    "kl_sum",
    "kl_mean",
    "kl_max",
    "shifted_share",
    "perplexity",
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


def test_runs_csv_says_what_was_saved(store: RunStore) -> None:
    recorded: tuple[dict[str, str], ...] = ({}, {"tv": "bound"}, {"server": "vllm"})
    traces = tuple(
        replace(
            trace, config=replace(trace.config, environment={**trace.config.environment, **more})
        )
        for rule, more in zip(("strict", "mars", "none"), recorded, strict=True)
        for trace in (make_trace(rule=rule, new_tokens=30),)
    )
    comparison_id = save(store, *traces)
    rows = parsed(runs_csv(store))
    assert [row["lane"] for row in rows] == ["0", "1", "2"]
    assert [row["tv_kind"] for row in rows] == ["exact", "bound", "unknown"]
    assert dict.fromkeys(
        (row["run_id"], row["tv_kind"]) for row in parsed(tokens_csv(store))
    ) == dict.fromkeys((row["run_id"], row["tv_kind"]) for row in rows)
    for row, trace in zip(rows, traces, strict=True):
        assert row["schema_version"] == "8"
        assert row["comparison_id"] == comparison_id
        assert row["text"] == guarded(trace.text)
        assert row["prompt"] == trace.config.prompt.text
        assert json.loads(row["rule_parameters"]) == trace.config.rule.parameters
        assert json.loads(row["environment"]) == trace.config.environment
        assert json.loads(row["prompt_ids"]) == list(trace.prompt_ids)
        for name in SUMMARY:
            assert same(number(row[name]), getattr(trace.summary, name))
        assert (row["chat"], row["status"]) == ("true", "completed")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", row["created_at"])
        assert datetime.fromisoformat(row["created_at"]).utcoffset() is not None


def test_what_a_run_began_with_is_in_its_row(store: RunStore) -> None:
    """That Parquet has the same is in test_importing.py."""
    history = (Exchange("one\x00", "=1"), Exchange("two", "\ud800"))
    prompt = PromptConfig("three", history=history, thinking=False)
    words, tree = ["a", "\x00", "=1", "b", "\ud800"], TreeShape(24, 6, 4)
    began = make_trace(
        new_tokens=5, temperature=0.0, prefix=(2, 0, 4), words=words, prompt=prompt, tree=tree
    )
    save(store, began)
    save(store, make_trace(new_tokens=2))
    row, plain = parsed(runs_csv(store))
    assert [json.loads(row[name]) for name in ("history", "prefix")] == [
        [turn._asdict() for turn in history],
        [2, 0, 4],
    ]
    assert [token["piece"] for token in json.loads(row["given"])] == [
        token.piece for token in began.given
    ]
    assert (row["drafter"], row["drafter_model"]) == ("eagle3", "demo/eagle3")
    names = ("tree_tokens", "tree_depth", "tree_top_k", "thinking")
    assert [row[name] for name in names] == ["24", "6", "4", "false"]
    assert {plain[name] for name in names} == {""}


def test_tokens_say_what_was_saved(
    store: RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.export.ROWS_A_GROUP", 50)
    monkeypatch.setattr("storage.export.tables.TOKENS_A_TABLE", 50)
    traces = (make_trace(new_tokens=80), make_trace(rule="mars", new_tokens=80), make_tree_trace())
    save(store, *traces)
    rows = parsed(tokens_csv(store))
    tokens = [token for trace in traces for token in all_tokens(trace)]
    assert {token.outcome for token in tokens} == {
        "accepted",
        "relaxed",
        "rejected",
        "recovered",
        "bonus",
    }
    for row, token in zip(rows, tokens, strict=True):
        assert (int(row["token_id"]), row["outcome"]) == (token.id, token.outcome)
        assert (json.loads(row["piece"]), json.loads(row["own_piece"])) == (
            token.piece,
            token.own_piece,
        )
        assert (int(row["char_start"]), int(row["char_end"])) == (token.start, token.end)
        assert (int(row["node"]), int(row["parent"])) == (token.node, token.parent)
        assert all(same(number(row[name]), getattr(token, name)) for name in NUMBERS)
        assert tuple(Alternative(**item) for item in json.loads(row["top"])) == token.top
    steps = {int(row["step"]): row for row in rows if row["lane"] == "0"}
    for step in traces[0].steps:
        assert float(steps[step.index]["step_elapsed_s"]) == step.elapsed_s
    assert [name for name in rows[0] if name.startswith("step_")] == [
        "step_drafted",
        "step_kept",
        "step_draft_s",
        "step_verify_s",
        "step_elapsed_s",
    ]
    write_parquet("tokens", store, tmp_path / "tokens.parquet")
    with pq.ParquetFile(tmp_path / "tokens.parquet") as file:
        assert file.schema_arrow.names == list(rows[0])
        assert (file.metadata.num_rows, file.num_row_groups) == (len(rows), 3)
        assert file.schema_arrow.metadata[b"schema_version"] == b"8"


def test_nodes_say_what_was_saved(store: RunStore, tmp_path: Path) -> None:
    tree = make_tree_trace()
    odd = [
        replace(step, nodes=tuple(replace(node, odds=node.q / 2) for node in step.nodes))
        for step in tree.steps
    ]
    traces = (
        replace(tree, steps=tuple(odd)),
        make_trace(rule="none"),
        make_trace(rule="mars", temperature=0.0),
    )
    comparison_id = save(store, *traces)
    write_parquet("nodes", store, tmp_path / "nodes.parquet")
    saved = [(lane, trace, *node) for lane, trace in enumerate(traces) for node in all_nodes(trace)]
    ids = [run.id for run in store.load(comparison_id).runs]
    rows = parsed(nodes_csv(store))
    for row, exact, (lane, trace, step, at, node) in zip(
        rows, read_parquet(tmp_path / "nodes.parquet"), saved, strict=True
    ):
        expected = (
            comparison_id,
            ids[lane],
            lane,
            trace.config.rule.name,
            step,
            at,
            node.parent,
            node.depth,
            node.id,
        )
        judged = any(token.node == at for token in trace.steps[step].tokens)
        assert same(exact.pop("odds"), node.odds) and same(number(row.pop("odds")), node.odds)
        assert tuple(exact.values()) == (
            8,
            *expected,
            node.piece,
            node.p,
            node.q,
            node.outcome,
            judged,
        )
        *head, piece, p, q, outcome, was_judged = row.values()
        assert head == ["8", *map(str, expected)]
        assert (json.loads(piece), float(p), float(q)) == (node.piece, node.p, node.q)
        assert (outcome, was_judged) == (node.outcome, str(judged).lower())
    assert list(rows[0]) == [
        "schema_version",
        "comparison_id",
        "run_id",
        "lane",
        "rule",
        "step",
        "node",
        "parent",
        "depth",
        "token_id",
        "piece",
        "p",
        "q",
        "outcome",
        "judged",
    ]


@pytest.mark.parametrize("words", [list(WORDS), ["=1", "\x00", "\ud800", "\n", "'\"␛"]])
def test_pieces_of_the_written_tokens_are_the_text(store: RunStore, words: list[str]) -> None:
    trace = make_trace(rule="mars", new_tokens=60, words=words, prefix=(1, 3))
    save(store, trace)
    rows = [row for row in parsed(tokens_csv(store)) if row["outcome"] != Outcome.REJECTED]
    beginning = json.loads(parsed(runs_csv(store))[0]["given"])
    assert "".join([token["piece"] for token in beginning] + pieces(rows)) == trace.text
    assert all(
        trace.text[int(row["char_start"]) : int(row["char_end"])] == json.loads(row["piece"])
        for row in rows
    )


def test_alternatives_are_json_whatever_they_hold(store: RunStore) -> None:
    values = [
        ("a\x00", 0.5),
        ("\ud800␛", math.nan),
        ('"\\\n,]', math.inf),
        ("日本\x85", -math.inf),
        ("", 1e-300),
        ("=1", 0.0),
    ]
    ids = [0, 2**62, 3, -(2**62), 2**63 - 1, 3]
    top = tuple(Alternative(id_, piece, p) for id_, (piece, p) in zip(ids, values, strict=True))
    trace = make_trace(rule="none", new_tokens=3)
    steps = [
        replace(step, tokens=tuple(replace(token, top=()) for token in step.tokens))
        for step in trace.steps
    ]
    steps[1] = replace(steps[1], tokens=(replace(steps[1].tokens[0], top=top),))
    save(store, replace(trace, steps=tuple(steps)))
    as_json = [
        [tuple(item.values()) for item in json.loads(row["top"])]
        for row in parsed(tokens_csv(store))
    ]
    written = [None if math.isnan(p) else p if math.isfinite(p) else str(p) for _, p in values]
    assert as_json == [
        [],
        [(id_, piece, p) for id_, (piece, _), p in zip(ids, values, written, strict=True)],
        [],
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((text, text) for text in HARMLESS),
        (-1.5, "-1.5"),
        (-7, "-7"),
        (math.nan, ""),
        (-math.inf, "-inf"),
        (None, ""),
        (True, "true"),
        ([math.nan, -math.inf, 0.5], '[null, "-inf", 0.5]'),
        ({"θ": -0.5}, '{"θ": -0.5}'),
    ],
)
def test_values_and_other_texts_are_not_guarded(value: object, text: str) -> None:
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


def test_formula_is_guarded(sqlite_store: RunStore) -> None:
    for text in DANGEROUS:
        trace = make_trace(prompt=PromptConfig(text, system=text), new_tokens=5, words=[text] * 5)
        made = save(
            sqlite_store,
            replace(trace, error=text, config=replace(trace.config, rule=RuleConfig(text))),
        )
        sqlite_store.annotate(made, name=text, tags=[text], comment=text)
    runs = {run["run_id"]: run for run in parsed(runs_csv(sqlite_store))}
    for run, text in zip(runs.values(), DANGEROUS, strict=True):
        assert [run[name] for name in ("prompt", "system", "error", "rule", "comment")] == [
            "'" + text
        ] * 5
        assert (run["name"], json.loads(run["tags"])) == ("'" + text.strip(), [text.strip()])
        assert run["source"] == "compare"
        assert run["text"] == "'" + text * (len(run["text"]) // len(text))
    for rows in (parsed(tokens_csv(sqlite_store)), parsed(nodes_csv(sqlite_store))):
        assert {"'" + json.loads(row["piece"]) for row in rows} == {
            run["prompt"] for run in runs.values()
        }
        assert all(runs[row["run_id"]]["prompt"] == "'" + json.loads(row["piece"]) for row in rows)


def test_no_cell_can_break_a_reader(sqlite_store: RunStore) -> None:
    hostile = 'a\x00b\ud800c\x1b[31md\x85e\x7f\r\n"f",\tg'
    save(sqlite_store, make_trace(prompt=hostile, new_tokens=6, words=[hostile] * 5))
    escaped = 'a\\u0000b\\ud800c\\u001b[31md\\u0085e\\u007f\r\n"f",\tg'
    for text in (runs_csv(sqlite_store), tokens_csv(sqlite_store), nodes_csv(sqlite_store)):
        text.encode("utf-8")
        assert text.startswith("schema_version,comparison_id,run_id,") and text.endswith("\n")
        assert not re.search("[\x00\x1b\x7f\x85]", text)
    (run,) = parsed(runs_csv(sqlite_store))
    assert run["prompt"] == escaped
    rows = parsed(tokens_csv(sqlite_store)) + parsed(nodes_csv(sqlite_store))
    assert set(pieces(rows)) == {hostile}


def test_export_is_in_order_of_making_and_can_be_filtered(store: RunStore) -> None:
    ids = [
        save(store, make_trace(seed=n, new_tokens=2), make_trace(seed=n, new_tokens=2))
        for n in range(45)
    ]
    assert [row["comparison_id"] for row in parsed(runs_csv(store))] == [
        id_ for id_ in ids for _ in range(2)
    ]
    chosen = [ids[40], ids[3], ids[40]]
    rows = parsed(runs_csv(store, chosen))
    assert [(row["comparison_id"], row["lane"]) for row in rows] == [
        (i, n) for i in chosen[:2] for n in "01"
    ]
    assert {row["comparison_id"] for row in parsed(tokens_csv(store, chosen))} == set(chosen)
    assert {row["comparison_id"] for row in parsed(nodes_csv(store, chosen))} == set(chosen)
    assert parsed(runs_csv(store, [])) == []
    assert {row["comparison_id"] for row in parsed(tokens_csv(store))} == set(ids)


def all_csv(store: RunStore, folder: Path) -> None:
    for name in ("tokens", "nodes", "runs"):
        write_csv(name, store, folder / name)


def tokens_parquet(store: RunStore, folder: Path) -> None:
    write_parquet("tokens", store, folder / "tokens.parquet")


def everything(store: RunStore, folder: Path) -> None:
    write_everything(store, folder / "all.zip")


@pytest.mark.parametrize("export", [all_csv, tokens_parquet, everything])
def test_exports_take_constant_memory(
    sqlite_store: RunStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    export: Callable[[RunStore, Path], None],
) -> None:
    monkeypatch.setattr("storage.export.tables.TOKENS_A_TABLE", 100)
    monkeypatch.setattr("storage.export.tables.COMPARISONS_A_READ", 2)
    monkeypatch.setattr("storage.export.ROWS_A_GROUP", 200)
    trace = make_trace(new_tokens=60, prompt="p" * 5000)
    for _ in range(8):  # enough for what is read ahead
        save(sqlite_store, trace)
    export(sqlite_store, tmp_path)  # compiled statements are cached
    few = [peak(lambda: export(sqlite_store, tmp_path)) for _ in range(2)]
    for _ in range(16):
        save(sqlite_store, trace)
    many = [
        peak(lambda: export(sqlite_store, tmp_path)) for _ in range(2)
    ]  # what is read ahead is a matter of chance
    assert min(many) < 1.25 * max(few)  # what is kept would add more than a half


def test_no_column_is_a_map() -> None:
    """``datasets``, with which the Hub shows files, has no such type."""
    assert not any(
        pa.types.is_map(kind) for export in EXPORTS.values() for kind in export.schema.types
    )


def test_failed_parquet_leaves_no_file(sqlite_store: RunStore, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"The Parquet file was not written: .*missing"):
        write_parquet("runs", sqlite_store, tmp_path / "missing" / "runs.parquet")
    (tmp_path / "taken.parquet").mkdir()
    with pytest.raises(StorageError, match="The Parquet file was not written"):
        write_parquet("runs", sqlite_store, tmp_path / "taken.parquet")
    assert list(tmp_path.glob("*.part")) == []
