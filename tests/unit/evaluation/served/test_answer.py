"""What servers write is read as it is meant: the shapes of llama.cpp and vLLM, and what is missing
is missing."""

from __future__ import annotations

import json
import math
import time
from typing import Any

import httpx
import pytest

from evaluation.scoring.calls import calls_of
from evaluation.served.answer import Answer, read_answer
from evaluation.served.client import result_of
from evaluation.served.trace import answer_trace
from mars_core.types import UNKNOWN, Status, StopReason, Trace
from tests.unit.evaluation.calls import expect
from tests.unit.evaluation.served.test_client import CONFIG

A, B = {"id": 35, "token": "a", "bytes": [97]}, {"id": 36, "token": "b", "bytes": [98]}
END = {"choices": [{"text": "", "finish_reason": "length"}]}


def events(*chunks: Any) -> Answer:
    lines = "".join(f"data: {json.dumps(each)}\n\n" for each in chunks)
    headers = {"content-type": "text/event-stream"}
    return result_of(
        read_answer(httpx.Response(200, headers=headers, text=lines), time.perf_counter())
    )


def answer_of(
    text: str,
    *content: dict[str, Any],
    finish: str = "length",
    tokens: int | None = None,
    **choice: Any,
) -> Answer:
    choice |= {"text": text, "logprobs": {"content": content}, "finish_reason": finish}
    usage = {"completion_tokens": len(content) if tokens is None else tokens}
    answer = httpx.Response(200, json={"choices": [choice], "usage": usage})
    return result_of(read_answer(answer, time.perf_counter()))


def row(
    token: dict[str, Any], logprob: float, *top: tuple[dict[str, Any], float]
) -> dict[str, Any]:
    return {
        **token,
        "logprob": logprob,
        "top_logprobs": [{**each, "logprob": value} for each, value in top],
    }


def run(answer: Answer) -> Trace:
    return answer_trace(CONFIG, answer)


@pytest.mark.parametrize(
    ("displayed", "names"),
    [
        ([A, B], (35, 36)),
        ([{"token": "�", "bytes": [159]}, {"token": "�", "bytes": [128]}], (b"\x9f", b"\x80")),
        ([{"token": "token_id:7"}, {"token": "token_id:8", "bytes": [97]}], (7, 8)),
        ([{"token": "�"}, {"token": "�"}], None),
        ([A, {"token": "", "bytes": []}], None),  # a special token
        ([A, {"token": "b", "bytes": 2**50}], None),
        ([A, {"token": "b", "id": 2**70}], None),
    ],
)
def test_tokens_are_named_by_id_or_bytes_and_never_by_their_display(
    displayed: list[Any], names: Any
) -> None:
    assert answer_of("ab", *(row(each, -1.0) for each in displayed)).names == names


def call(index: int, arguments: str, **function: str) -> dict[str, Any]:
    calls = [{"index": index, "function": {**function, "arguments": arguments}}]
    return {"choices": [{"delta": {"content": None, "tool_calls": calls}}]}


@pytest.mark.parametrize(("finish", "known"), [("tool_calls", 2), ("stop", 2), ("length", 0)])
def test_tool_calls_of_a_server_are_text_and_a_call_that_was_cut_is_none(
    finish: str, known: int
) -> None:
    parts = (call(0, "", name="add"), call(0, '{"a": '), call(0, "1}"), call(1, "", name="now"))
    answer = events(*parts, {"choices": [{"delta": {}, "finish_reason": finish}]})
    assert (calls_of(answer.text) or [])[:known] == [("add", {"a": 1}), ("now", {})][:known]
    assert run(answer).stop_reason in (StopReason.EOS, StopReason.LENGTH)
    functions = [{"name": "add", "arguments": '{"a": 1}'}, {"name": "now", "arguments": ""}]
    message = {"tool_calls": [{"function": each} for each in functions]}
    body = {"choices": [{"message": message, "finish_reason": finish}]}
    whole = result_of(read_answer(httpx.Response(200, json=body), time.perf_counter()))
    assert whole.text == answer.text


@pytest.mark.parametrize("ids", [None, [4, 5]])
def test_an_answer_with_more_tokens_than_log_probabilities_names_none(
    ids: list[int] | None,
) -> None:
    """llama.cpp has one position for the four tokens of an emoji, with the id of the last one."""
    answer = answer_of(
        "😀",
        row({"id": 249, "token": "😀", "bytes": list("😀".encode())}, -0.8),
        tokens=4,
        token_ids=ids,
    )
    expect(answer, names=None, logprobs=None, token_ids=None)
    trace = run(answer)
    assert (trace.text, len(trace.tokens), trace.tokens[0].id, trace.summary.new_tokens) == (
        "😀",
        1,
        UNKNOWN,
        4,
    )
    assert math.isnan(trace.summary.log_likelihood)


def test_accepted_drafts_of_llama_cpp_have_names_in_one_piece_and_no_log_probability() -> None:
    answer = answer_of("aba", row(A, -0.2, (A, -0.2), (B, -2.0)), row(B, 0.0), row(A, 0.0))
    assert answer.names == (35, 36, 35)
    assert [token.logprob for token in run(answer).tokens] == pytest.approx(
        [-0.2, math.nan, math.nan], nan_ok=True
    )
    streamed = events(
        {"choices": [{"text": "a", "logprobs": {"content": [row(A, -0.2)]}}]},
        {"choices": [{"text": "b", "logprobs": None}]},
        {**END, "usage": {"completion_tokens": 2}},
    )
    expect(streamed, names=None, text="ab")


@pytest.mark.parametrize(
    ("logprob", "second", "known"),
    [
        (-0.1, -3.0, True),
        (0.0, -30.0, True),  # certain, by what is left for others
        (0.0, -1.0, False),
        (0.0, None, False),
        (-9999.0, -1.0, False),
        (-3.4e38, -1.0, False),
        (None, -1.0, False),
    ],
)
def test_a_log_probability_that_is_none_is_missing_and_not_summed(
    logprob: Any, second: float | None, known: bool
) -> None:
    top = [(A, 0.0 if logprob is None else max(logprob, -1.0))] + (
        [] if second is None else [(B, second)]
    )
    summary = run(
        answer_of("ab", row(B, -0.5, (B, -0.5), (A, -2.0)), row(A, logprob, *top))
    ).summary
    assert summary.new_tokens == 2
    assert (
        summary.log_likelihood == pytest.approx(logprob - 0.5)
        if known
        else math.isnan(summary.log_likelihood)
    )


@pytest.mark.parametrize(
    "names", [("reasoning_content",), ("reasoning",), ("reasoning_content", "reasoning")]
)
def test_reasoning_is_text(names: tuple[str, ...]) -> None:
    reasoning = {"choices": [{"delta": dict.fromkeys(names, "so ")}]}
    end = {"delta": {"content": "a"}, "finish_reason": "length"}
    answer = events(reasoning, {"choices": [end], "usage": {"completion_tokens": 5}})
    assert answer.text == "so a"
    assert answer.ttft_s == answer.parts[0].at_s  # of the reasoning
    summary = run(answer).summary
    assert summary.new_tokens == 5 and math.isnan(summary.log_likelihood)


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        ("stop", StopReason.EOS),
        ("eos", StopReason.EOS),
        ("length", StopReason.LENGTH),
        ("content_filter", StopReason.ERROR),
    ],
)
def test_shapes_of_other_servers_are_read(finish: str, reason: StopReason) -> None:
    answer = events(
        {"choices": [{"delta": None, "finish_reason": None}]},
        None,
        {"choices": [{"delta": {"content": "a"}}]},
        {"choices": None},
        {"choices": [{"delta": {"content": None}, "finish_reason": finish}]},
        {"usage": {"completion_tokens": 1, "prompt_tokens": "many"}, "metrics": ["x"]},
    )
    trace = run(answer)
    failed = reason is StopReason.ERROR
    expect(trace, text="a", stop_reason=reason)
    assert bool(trace.error) is (trace.status is Status.FAILED) is failed
    expect(trace.summary, new_tokens=1, prompt_tokens=UNKNOWN)


@pytest.mark.parametrize(
    ("pieces", "choice", "new_tokens", "reason"),
    [
        (
            "a # ## b c",
            {"stop_reason": "###", "token_ids": [1, 2, 3, 4, 5]},
            3,
            StopReason.STOP_STRING,
        ),
        ("a # ## b c", {}, 3, StopReason.STOP_STRING),
        ("a b c", {}, 3, StopReason.EOS),
        ("a � b", {"stop_reason": "###", "token_ids": [1, 2, 3]}, UNKNOWN, StopReason.STOP_STRING),
        (
            "a � b",
            {"stop_reason": "###"},
            3,
            StopReason.STOP_STRING,
        ),  # only counted: nothing says that they go on
    ],
)
def test_tokens_past_a_stop_string_are_no_part_of_the_run(
    pieces: str, choice: dict[str, Any], new_tokens: int, reason: StopReason
) -> None:
    tokens = [row({"token": piece}, -1.0, ({"token": piece}, -1.0)) for piece in pieces.split()]
    trace = run(answer_of("a", *tokens, finish="stop", **choice))
    assert (trace.text, trace.stop_reason, trace.summary.new_tokens) == ("a", reason, new_tokens)
    if new_tokens != UNKNOWN and any(token.piece == "##" for token in trace.tokens):
        assert trace.summary.log_likelihood == -3.0
