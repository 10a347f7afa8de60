"""Captured streams, and what is imported: nothing twice or by half."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evaluation.records.read import read_records
from evaluation.records.values import NAN
from storage import RunStore, Search
from storage.importing import import_runs
from tests.unit.evaluation.calls import mars
from tests.unit.evaluation.records.examples import (
    CHUNKS,
    LINE,
    LLAMA,
    SGLANG,
    SPECULATIVE,
    VLLM,
    WHOLE,
    only,
    stream,
)

CHOICE = WHOLE["choices"][0] | {"token_ids": [1, 2, 3]}


TIMINGS = LLAMA | {"content": "", "stop": True}


STREAMS: dict[str, tuple[list[Any], Any]] = {
    "vLLM": (
        [*CHUNKS[:-1], CHUNKS[-1] | {"metrics": {"speculative_decoding": SPECULATIVE}}],
        VLLM | {"choices": [CHOICE], "usage": WHOLE["usage"]},
    ),
    "SGLang": (
        [*CHUNKS, {"id": "a", "choices": [], "sglext": WHOLE["sglext"]}],
        WHOLE | {"choices": [CHOICE]},
    ),
    "SGLang, /generate": (
        [
            SGLANG | {"text": "Hel", "output_ids": [1, 2], "meta_info": {"id": "x"}},
            SGLANG,
        ],
        SGLANG,
    ),
    "SGLang, /generate in parts": (
        [
            SGLANG | {"text": "Hel", "output_ids": [1, 2], "meta_info": {"id": "x"}},
            SGLANG | {"text": "lo", "output_ids": [3, 4, 5, 6, 7]},
        ],
        SGLANG,
    ),
    "llama.cpp": (
        [*CHUNKS[:-2], CHUNKS[-2] | {"timings": LLAMA["timings"]}],
        {"choices": [CHOICE], "timings": LLAMA["timings"]},
    ),
    "llama.cpp, /completion": (
        [{"content": "Hel", "stop": False}, {"content": "lo", "stop": False}, TIMINGS],
        LLAMA,
    ),
}


@pytest.mark.parametrize(("chunks", "whole"), STREAMS.values(), ids=STREAMS)
def test_a_captured_stream_is_read_as_the_answer_in_one_piece(
    file: Callable[[Any], Path], chunks: list[Any], whole: Any
) -> None:
    expected = only(file(whole))[0]
    other = [{**CHUNKS[0], "id": "b"}, {**CHUNKS[3], "id": "b"}]
    text = f": ping\n\n{stream(*chunks)}event: message\n{stream(*other, done=False)}"
    for written in (text, "\ufeff" + text.replace("\n", "\r\n")):
        first, second = read_records(file(written))
        assert first.trace.text == expected.text and second.trace.text == ""
        assert repr(first.trace.summary) == repr(expected.summary)
        assert first.trace.stop_reason is expected.stop_reason


@pytest.mark.parametrize(
    ("name", "id_"),
    [
        ("vLLM", "498bf09c53bf31ea2052f34ee1589fab"),
        ("llama.cpp, /completion", "2ee844658dd2522d42313312be7ccfc0"),
    ],
)
def test_a_stream_has_the_id_that_it_always_had(
    name: str, id_: str, file: Callable[[Any], Path], store: RunStore
) -> None:
    """So that it is not imported twice when more of it is read."""
    assert import_runs(store, read_records(file(stream(*STREAMS[name][0])))) == 1
    assert store.matching_ids(Search()) == [id_]


def drafting(*more: Any) -> list[Any]:
    """The stream of llama.cpp that accepted its second token from a draft, of which it has no log
    probability, and ended with the end of the turn, which it counts and does not send."""
    known = {"content": [{"id": 35, "token": "a", "bytes": [97], "logprob": -0.2}]}
    parts = ({"delta": {"content": "a"}, "logprobs": known}, {"delta": {"content": "b"}})
    timings = LLAMA["timings"] | {"predicted_n": 3, "draft_n": 2, "draft_n_accepted": 1}
    end = {"choices": [{"delta": {}, "finish_reason": "stop"}], "timings": timings}
    return [*({"choices": [{"finish_reason": None, **part}]} for part in parts), end, *more]


@pytest.mark.parametrize("more", [(), ({"choices": [], "usage": {"completion_tokens": 3}},)])
def test_tokens_of_a_stream_without_all_log_probabilities_are_its_parts(
    file: Callable[[Any], Path], more: tuple[Any, ...]
) -> None:
    (record,) = read_records(file(stream(*drafting(*more))))
    tokens, summary = record.trace.tokens, record.trace.summary
    assert [each.piece for each in tokens] == ["a", "b", ""] and record.trace.text == "ab"
    assert [each.logprob for each in tokens] == pytest.approx([-0.2, NAN, NAN], nan_ok=True)
    assert (summary.new_tokens, summary.steps, summary.tau) == (3, 1, 3.0)
    assert math.isnan(summary.log_likelihood)


def test_tokens_of_llama_cpps_own_endpoint_have_their_log_probabilities(
    file: Callable[[Any], Path],
) -> None:
    """An accepted draft has none: in one piece it is 0, in a stream it is not there."""
    rows = [{"id": 7, "token": "Hel", "logprob": -0.5}, {"id": 8, "token": "lo", "logprob": 0.0}]
    timings = TIMINGS["timings"] | {"predicted_n": 2, "draft_n_accepted": 1}
    parts: list[Any] = [{"content": text, "stop": False} for text in ("Hel", "lo")]
    parts[0] |= {"completion_probabilities": rows[:1]}
    whole = LLAMA | {"timings": timings, "completion_probabilities": rows}
    for written in (stream(*parts, TIMINGS | {"timings": timings}), whole):
        (record,) = read_records(file(written))
        tokens = record.trace.tokens
        assert [each.piece for each in tokens] == ["Hel", "lo"] and tokens[0].id == 7
        assert [each.logprob for each in tokens] == pytest.approx([-0.5, NAN], nan_ok=True)


def test_interleaved_choices_and_answers_of_a_stream_are_told_apart(
    file: Callable[[Any], Path],
) -> None:
    chunks = [
        {"id": id_, "choices": [{"index": at, "text": text, "finish_reason": reason}]}
        for text, reason in (("x", None), ("y", "stop"))
        for id_ in "ab"
        for at in (0, 1)
    ]
    for each in chunks:
        each["choices"][0]["text"] += each["id"] + str(each["choices"][0]["index"])
    texts = [each.trace.text for each in read_records(file(stream(*chunks)))]
    assert texts == ["xa0ya0", "xa1ya1", "xb0yb0", "xb1yb1"]


STEP = LINE["steps"][1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (f"{json.dumps(LINE)}\n{{]\n", "line 2, cannot be read"),
        (f'{json.dumps(LINE)}\n{{"a": 1}}\n', "line 2, cannot be read: it is not a record of"),
        (
            LINE | {"format": "mars-vllm-2"},
            "format is 'mars-vllm-2'; it must be 'mars-vllm-1'",
        ),
        (LINE | {"steps": [STEP | {"kept": 3}]}, "do not belong together"),
        (LINE | {"steps": [STEP | {"z1": [1e300, 2]}]}, "is not a number of at most"),
        (json.dumps(LINE).replace("11.5", "NaN"), "NaN is not a JSON number"),
        (
            {key: value for key, value in LINE.items() if key != "rule"},
            "it has no field 'rule'",
        ),
        (VLLM | {"usage": {"completion_tokens": -1}}, "'-1' is not a whole number"),
        ({"choices": [{"text": "a"}]}, "the server ended its answer without a finish reason"),
        ("[" * 100_000, "cannot be read"),
        ("up 1\n", "line 1, cannot be read"),
        ("", "it has no record"),
        ("data: {]\n", "the event in line 1 is not a JSON object"),
        (stream(*CHUNKS[:2]), "it ends without a finish reason"),
        (stream({"error": {"message": "busy"}}), "the server ended its answer with an error: busy"),
    ],
)
def test_one_bad_entry_is_one_sentence_and_nothing_is_imported(
    content: Any, message: str, tmp_path: Path, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(json.dumps(VLLM))
    text = content if isinstance(content, str) else json.dumps(content)
    bad.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert mars(f"import {good} {bad} --db {url}") == 2
    err = capsys.readouterr().err
    assert (
        message in err and err.startswith(f"Nothing was imported: {bad}") and err.count("\n") == 1
    )
    with RunStore(url) as store:
        assert store.count() == 0


def test_a_file_is_imported_once_and_displayed_as_records_of_servers(
    file: Callable[[Any], Path], url: str
) -> None:
    hostile = LINE | {"model": "<script>\x00\ud800", "id": "‮"}
    lines = [LINE, hostile, LINE]
    path = file("\n".join(map(json.dumps, lines)) + "\n\n")
    with RunStore(url) as store:
        assert import_runs(store.of("ann"), read_records(path)) == 2
        assert import_runs(store.of("ann"), read_records(path)) == 0
        file("\n".join(map(json.dumps, [*lines, VLLM])))
        assert import_runs(store.of("ann"), read_records(path)) == 1
        assert (store.of("ann").count(), store.of("bob").count()) == (3, 0)
        ids = store.matching_ids(Search(limit=1000))
        stored = [store.load(id_) for id_ in ids]
    assert {str(each.source) for each in stored} == {"server"}
    first = next(
        each for each in stored if each.runs[0].trace.config.target.name == "models/target"
    )
    assert first.created_at.isoformat() == "2026-11-23T08:00:00+00:00"
    assert repr(first.runs[0].trace) == repr(read_records(path)[0].trace)  # nan is nan
    assert "<script>\ufffd\ufffd" in {each.runs[0].trace.config.target.name for each in stored}


def test_the_command_says_how_many(
    file: Callable[[Any], Path],
    url: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert mars(f"import {file([VLLM, SGLANG, LLAMA])} --db {url}") == 0
    assert capsys.readouterr().out == "3 runs imported; 0 were already stored.\n"
    assert mars(f"import {tmp_path}/none.json --db {url}") == 2
    assert f"Nothing was imported: {tmp_path}/none.json cannot be read" in capsys.readouterr().err
