"""Records of servers become runs: what is known is filled in, what is not is named, and nothing is
imported twice or by half."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from evaluation.records.read import read_records
from mars_core.types import UNKNOWN, Outcome, StopReason, Trace
from storage import RunStore
from storage.importing import import_runs
from tests.unit.evaluation.calls import expect, mars


def step(*values: Any) -> dict[str, Any]:
    names = ("drafted", "kept", "relaxed", "z1", "z2", "id1", "id2", "emitted")
    return dict(zip(names, values, strict=True))


LINE: dict[str, Any] = {
    "format": "mars-vllm-1",
    "id": "cmpl-1",
    "model": "models/target",
    "drafter": "eagle3:models/head",
    "vllm": "0.32.0",
    "plugin": "0.1.0",
    "rule": "mars",
    "parameters": {"theta": 0.9},
    "temperature": 0.0,
    "seed": None,
    "prompt_ids": [1, 2, 3],
    "steps": [
        step([], 0, [], [], [], [], [], [5]),
        step([6, 7], 1, [True, False], [12.0, 9.0], [11.5, None], [8, 9], [6, 7], [6, 9]),
        step([4, 4], 2, [False, False], [5.0, 5.0], [1.0, 1.0], [4, 4], [2, 2], [4, 4, 3]),
    ],
    "finished": "2026-11-23T08:00:00+00:00",
}
SPECULATIVE = {  # of vLLM 0.32.0 with --per-request-spec-decode-metrics detailed
    "mean_acceptance_length": 13 / 3,
    "draft_acceptance_rate": 2 / 3,
    "acceptance_histogram": [1, 0, 0, 0, 0, 2],
    "num_spec_steps": 3,
    "num_accepted_draft_tokens": 10,
    "num_draft_tokens": 15,
    "num_spec_tokens": 5,
    "per_step_accepted": [0, 5, 5],
    "per_step_drafted": [5, 5, 5],
}
VLLM: dict[str, Any] = {
    "id": "cmpl-2",
    "object": "text_completion",
    "created": 1795422080,
    "model": "spec",
    "choices": [
        {
            "index": 0,
            "text": "Once upon",
            "finish_reason": "length",
            "stop_reason": None,
            "token_ids": [*range(12)],
            "prompt_token_ids": [0, 648],
        }
    ],
    "usage": {"prompt_tokens": 2, "completion_tokens": 12, "total_tokens": 14},
    "metrics": {"time_to_first_token_ms": None, "speculative_decoding": SPECULATIVE},
}
SGLANG: dict[str, Any] = {
    "text": "Hello",
    "output_ids": [1, 2, 3, 4, 5, 6, 7],
    "meta_info": {
        "id": "x",
        "finish_reason": {"type": "length", "length": 7},
        "prompt_tokens": 4,
        "completion_tokens": 7,
        "e2e_latency": 0.5,
        "spec_accept_rate": 4 / 6,
        "spec_accept_length": 3.5,
        "spec_verify_ct": 2,
        "spec_num_correct_drafts": 4,
        "spec_num_proposed_drafts": 6,
        "spec_correct_drafts_histogram": [0, 1, 0, 1],
    },
}
LLAMA: dict[str, Any] = {
    "content": "Hello",
    "model": "m.gguf",
    "prompt": "Say hello",
    "stop_type": "limit",
    "tokens_evaluated": 9,
    "generation_settings": {"temperature": 0.5},
    "timings": {
        "prompt_n": 9,
        "prompt_ms": 100.0,
        "predicted_n": 11,
        "predicted_ms": 400.0,
        "draft_n": 20,
        "draft_n_accepted": 6,
    },
}
LLAMA_METRICS = """\
# TYPE llamacpp:prompt_tokens_total counter
llamacpp:prompt_tokens_total 75
llamacpp:prompt_tokens_cached_total 58
llamacpp:tokens_predicted_total 29
llamacpp:spec_decode_num_draft_tokens_total 12
llamacpp:spec_decode_num_accepted_tokens_total 7
llamacpp:spec_decode_num_drafts_total 4
llamacpp:spec_decode_num_accepted_tokens_per_pos_total{position="0"} 4
llamacpp:spec_decode_num_accepted_tokens_per_pos_total{position="1"} 3
llamacpp:spec_decode_num_accepted_tokens_per_pos_total{position="2"} 0
"""
METRICS = """\
# TYPE vllm:spec_decode_num_drafts counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="spec"} 4
vllm:spec_decode_num_drafts_total{engine="1",model_name="spec"} 6
# TYPE vllm:spec_decode_num_draft_tokens counter
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="spec"} 20
vllm:spec_decode_num_draft_tokens_total{engine="1",model_name="spec"} 30
# TYPE vllm:spec_decode_num_accepted_tokens counter
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="spec"} 15
vllm:spec_decode_num_accepted_tokens_total{engine="1",model_name="spec"} 15
vllm:prompt_tokens_total{engine="0",model_name="spec"} 70
vllm:generation_tokens_total{engine="0",model_name="spec"} 45
vllm:mars_relaxed_tokens_total{engine="0",model_name="spec"} 4
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="4"} 2
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="3"} 4
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="2"} 6
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="1"} 8
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 10
"""


CHUNKS: list[dict[str, Any]] = [
    {"id": "a", "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]},
    {"id": "a", "choices": [{"index": 0, "delta": {"content": "Hel"}, "token_ids": [1, 2]}]},
    {"id": "a", "choices": [{"index": 0, "delta": {"content": "lo\u2028"}, "token_ids": [3]}]},
    {"id": "a", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    {"id": "a", "choices": [], "usage": {"prompt_tokens": 4, "completion_tokens": 3}},
]
SPEC = {"spec_verify_ct": 2, "spec_num_correct_drafts": 1, "spec_num_proposed_drafts": 4}
WHOLE = {  # as SGLang answers a chat with return_spec_tokens_details
    "id": "a",
    "choices": [{"index": 0, "message": {"content": "Hello\u2028"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 4, "completion_tokens": 3},
    "sglext": {"spec_tokens_details": SPEC | {"spec_correct_drafts_histogram": [1, 1]}},
}


def stream(*chunks: Any, done: bool = True) -> str:
    events = [f"data: {json.dumps(each, ensure_ascii=False)}\n\n" for each in chunks]
    return "".join(events) + "data: [DONE]\n\n" * done


@pytest.fixture
def file(tmp_path: Path) -> Callable[[Any], Path]:
    def write(value: Any) -> Path:
        path = tmp_path / "record.json"
        path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
        return path

    return write


def only(path: Path) -> tuple[Trace, str]:
    (record,) = read_records(path)
    return record.trace, record.comment


def test_a_line_of_the_plugin_has_steps_margins_and_relaxed_tokens(
    file: Callable[[Any], Path],
) -> None:
    trace, comment = only(file(json.dumps(LINE) + "\n"))
    summary, config = trace.summary, trace.config
    assert (config.target.name, config.drafter.kind, config.drafter.k) == (
        "models/target",
        "eagle3",
        2,
    )
    assert config.drafter.model is not None and config.drafter.model.name == "models/head"
    assert (config.rule.name, config.rule.parameters, config.seed) == (
        "mars",
        {"theta": 0.9},
        UNKNOWN,
    )
    expect(summary, new_tokens=6, prompt_tokens=3, steps=2)
    expect(summary, drafted=4, accepted=2, relaxed=1, rejected=1)
    assert summary.tau == 3.0 and summary.acceptance_by_position == (1.0, 0.5)
    assert [token.id for token in trace.tokens] == [5, 6, 9, 4, 4, 3]
    first, second = ([token.outcome.value for token in step.tokens] for step in trace.steps)
    assert first == ["bonus", "relaxed", "rejected", "recovered"] and second == [
        "accepted",
        "accepted",
        "bonus",
    ]
    _, relaxed, rejected, recovered = trace.steps[0].tokens
    expect(relaxed, id=6, z1=12.0, z2=11.5, gap=0.5, rank=2)
    expect(relaxed, own=8, r=11.5 / 12)
    assert (rejected.id, rejected.position, recovered.position) == (7, 2, 2)
    assert [node.outcome for node in trace.steps[0].nodes] == [Outcome.RELAXED, Outcome.REJECTED]
    assert math.isnan(summary.wall_s) and trace.stop_reason is StopReason.UNKNOWN
    assert (
        comment == "Imported from record.json: a line of mars-vllm. Not known: prompt, text, times."
    )


def test_an_answer_of_vllm_has_steps_with_its_tokens_and_counts_without(
    file: Callable[[Any], Path],
) -> None:
    trace, _ = only(file(VLLM))
    assert [(step.drafted, step.kept) for step in trace.steps] == [
        (5, 0),
        (5, 5),
        (5, 4),
    ]  # the rest was cut at the end
    assert (trace.text, trace.summary.steps, trace.summary.tau) == ("Once upon", 3, 4.0)
    choice = {key: value for key, value in VLLM["choices"][0].items() if key != "token_ids"}
    trace, comment = only(file(VLLM | {"choices": [choice]}))
    summary = trace.summary
    expect(summary, steps=3, drafted=15, rejected=5, tau=4.0)
    expect(summary, accepted=UNKNOWN, relaxed=UNKNOWN)
    assert summary.acceptance_by_position == pytest.approx((2 / 3,) * 5)
    assert summary.acceptance_rate == pytest.approx(2 / 3)
    assert "an answer of vLLM; its own τ is 1 + accepted tokens / passes with a draft" in comment
    assert comment.endswith(
        "Not known: prompt, token ids, rule, drafter, sampling, margins, relaxed tokens, times."
    )


@pytest.mark.parametrize(
    "names",
    [
        {},
        {
            "spec_num_correct_drafts": "spec_accept_token_num",
            "spec_num_proposed_drafts": "spec_draft_token_num",
            "spec_correct_drafts_histogram": "spec_accept_histogram",
        },
    ],
)
def test_the_histogram_of_sglang_is_acceptance_by_position(
    file: Callable[[Any], Path], names: Mapping[str, str]
) -> None:
    meta = {names.get(name, name): value for name, value in SGLANG["meta_info"].items()}
    for row in (
        SGLANG | {"meta_info": meta},
        {"choices": [{"text": "Hello", "finish_reason": "length", "meta_info": meta}]},
    ):
        summary = only(file(row))[0].summary
        expect(summary, steps=2, drafted=6, tau=3.5)
        assert summary.acceptance_by_position == (1.0, 0.5, 0.5)
        expect(summary, wall_s=0.5, tokens_per_s=14.0)


def test_the_counts_of_sglang_beside_a_chat_are_its_own(file: Callable[[Any], Path]) -> None:
    trace, comment = only(file(WHOLE))
    expect(trace.summary, steps=2, drafted=4, rejected=3, new_tokens=3, prompt_tokens=4)
    assert trace.summary.acceptance_by_position == (0.5,)
    assert "an answer of SGLang; its own τ" in comment and trace.stop_reason is StopReason.EOS


@pytest.mark.parametrize("details", [[SPEC, SPEC | {"spec_num_correct_drafts": 0}], SPEC, None])
@pytest.mark.parametrize("more", [{}, {"timings": {"predicted_n": 9}}, {"metrics": {}}])
def test_every_choice_is_a_run_without_what_was_counted_for_all(
    file: Callable[[Any], Path], details: Any, more: Mapping[str, Any]
) -> None:
    choices = [
        {"index": index, "text": text, "finish_reason": "stop", "token_ids": [7, 8]}
        for index, text in enumerate(("one", "two"))
    ]
    usage = {"prompt_tokens": 4, "completion_tokens": 4}
    row = {"choices": choices, "usage": usage, "sglext": {"spec_tokens_details": details}, **more}
    records = read_records(file(row))
    assert [each.trace.text for each in records] == ["one", "two"]
    for number, each in enumerate(records, 1):
        expect(each.trace.summary, new_tokens=2, prompt_tokens=4)
        assert f", choice {number} of 2, without what was counted for all" in each.comment
    rejected = [each.trace.summary.rejected for each in records]
    assert rejected == ([3, 4] if isinstance(details, list) else [UNKNOWN, UNKNOWN])


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


def test_llama_cpp_has_counts_and_times_and_no_positions(file: Callable[[Any], Path]) -> None:
    trace, comment = only(file(LLAMA))
    summary = trace.summary
    assert (trace.text, trace.config.prompt.text, trace.config.sampling.temperature) == (
        "Hello",
        "Say hello",
        0.5,
    )
    expect(summary, steps=4, drafted=20, acceptance_rate=0.3)  # 11 tokens − 1 − 6
    expect(summary, tau=2.75, wall_s=0.5, prefill_s=0.1)
    assert "acceptance by position" in comment and trace.stop_reason is StopReason.LENGTH


@pytest.mark.parametrize(
    ("row", "text", "prompt_tokens"),
    [
        (LLAMA, "Hello", 9),
        (
            {
                "timings": {"prompt_n": 1, "cache_n": 6},
                "choices": [{"text": "a"}],
                "usage": {"prompt_tokens": 7},
            },
            "a",
            7,
        ),
        (
            {"timings": {"prompt_n": 1, "cache_n": 6}, "choices": [{"message": {"content": None}}]},
            "",
            7,
        ),
        (
            {
                "choices": [
                    {
                        "message": {"reasoning_content": "so ", "content": "b"},
                        "finish_reason": "stop",
                    }
                ]
            },
            "so b",
            UNKNOWN,
        ),
        ({"timings": {}, "choices": [{"message": {"reasoning": "so "}}]}, "so ", UNKNOWN),
    ],
)
def test_reasoning_is_text_and_cached_tokens_are_of_the_prompt(
    file: Callable[[Any], Path], row: dict[str, Any], text: str, prompt_tokens: int
) -> None:
    trace, _ = only(file(row))
    assert (trace.text, trace.summary.prompt_tokens) == (text, prompt_tokens)


def test_metrics_are_one_run_of_the_server(file: Callable[[Any], Path]) -> None:
    trace, comment = only(file(METRICS))
    summary = trace.summary
    expect(summary, steps=UNKNOWN, drafted=50, accepted=26, relaxed=4)
    expect(summary, tau=4.0, acceptance_rate=0.6, new_tokens=45)
    assert summary.acceptance_by_position == (1.0, 0.8, 0.6, 0.4, 0.2)
    assert (
        "/metrics of vLLM, all answers of the server together" in comment
        and trace.config.target.name == "spec"
    )
    trace, comment = only(
        file('sglang:spec_accept_length{model_name="q"} 2.5\nsglang:spec_accept_rate 0.5\n')
    )
    expect(trace.summary, tau=2.5, acceptance_rate=0.5, steps=UNKNOWN)
    for name in ("tv_sum", "kl_sum", "draft_s", "verify_s", "log_likelihood"):
        assert math.isnan(getattr(trace.summary, name)), name
    trace, comment = only(file(LLAMA_METRICS))
    summary = trace.summary
    assert "/metrics of llama.cpp" in comment and (summary.prompt_tokens, summary.new_tokens) == (
        75 + 58,
        29,
    )
    expect(summary, drafted=12, rejected=5, tau=1 + 7 / 4)
    assert summary.acceptance_by_position == (1.0, 0.75, 0.0)


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
        ids = [str(id_) for id_ in store.comparisons()["id"]]
        stored = [store.load(id_) for id_ in ids]
    assert {str(each.source) for each in stored} == {"server"}
    first = next(
        each for each in stored if each.runs[0].trace.config.target.name == "models/target"
    )
    assert first.created_at.isoformat() == "2026-11-23T08:00:00+00:00"
    assert repr(first.runs[0].trace) == repr(read_records(path)[0].trace)  # nan is nan
    assert "<script>\ufffd\ufffd" in {each.runs[0].trace.config.target.name for each in stored}


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
        ("[" * 100_000, "cannot be read"),
        ('vllm:spec_decode_num_accepted_tokens_per_pos_total{position="x"} 1\n', "cannot be read"),
        ("up 1\n", "no counter spec_decode_num_drafts_total of vLLM or llama.cpp"),
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
