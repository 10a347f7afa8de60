"""Records of servers become runs: what is known is filled in, what is not is named."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from evaluation.records.read import read_records
from mars_core.types import UNKNOWN, Outcome, Status, StopReason
from tests.unit.evaluation.calls import expect
from tests.unit.evaluation.records.examples import (
    AIPERF,
    LINE,
    LLAMA,
    SGLANG,
    SPEC,
    VLLM,
    WHOLE,
    only,
)

STOPPED = {
    "choices": [
        {
            "text": "a",
            "finish_reason": "stop",
            "stop_reason": "##",
            "logprobs": {
                "content": [{"token": each, "logprob": -1.0} for each in ("a", "##", "b")]
            },
        }
    ]
}


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
    ("row", "stop", "new_tokens"),
    [
        (LLAMA | {"stop_type": "word"}, StopReason.STOP_STRING, 11),
        (SGLANG | {"meta_info": {"finish_reason": {"type": "abort"}}}, StopReason.ERROR, 7),
        (STOPPED, StopReason.STOP_STRING, 2),
    ],
)
def test_an_imported_answer_ends_as_one_that_was_asked_for(
    file: Callable[[Any], Path], row: dict[str, Any], stop: StopReason, new_tokens: int
) -> None:
    """Tokens past a stop string are no part of it, and another end than a server has is its error."""
    trace, _ = only(file(row))
    assert trace.stop_reason is stop and trace.summary.new_tokens == new_tokens
    assert bool(trace.error) is (trace.status is Status.FAILED) is (stop is StopReason.ERROR)


@pytest.mark.parametrize(("drafted", "accepted", "passes"), [(3, 1, 1), (4, 4, 1), (0, 0, 1)])
def test_a_text_that_ends_within_an_accepted_draft_took_one_pass(
    file: Callable[[Any], Path], drafted: int, accepted: int, passes: int
) -> None:
    """llama.cpp counts two tokens: one of the prefill, and the first accepted one, which ends it."""
    counts = {"predicted_n": 2, "draft_n": drafted, "draft_n_accepted": accepted}
    trace, _ = only(file(LLAMA | {"timings": LLAMA["timings"] | counts}))
    expect(trace.summary, steps=passes, tau=2 / passes, drafted=drafted)


@pytest.mark.parametrize(
    ("row", "text", "prompt_tokens"),
    [
        (LLAMA, "Hello", 9),
        (
            {
                "timings": {"prompt_n": 1, "cache_n": 6},
                "choices": [{"text": "a", "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 7},
            },
            "a",
            7,
        ),
        (
            {
                "timings": {"prompt_n": 1, "cache_n": 6},
                "choices": [{"message": {"content": None}, "finish_reason": "stop"}],
            },
            "",
            7,
        ),
        (
            {
                "timings": {},
                "choices": [
                    {"message": {"reasoning": "so ", "content": "b"}, "finish_reason": "stop"}
                ],
            },
            "so b",
            UNKNOWN,
        ),
    ],
)
def test_reasoning_is_text_and_cached_tokens_are_of_the_prompt(
    file: Callable[[Any], Path], row: dict[str, Any], text: str, prompt_tokens: int
) -> None:
    trace, _ = only(file(row))
    assert (trace.text, trace.summary.prompt_tokens) == (text, prompt_tokens)


def test_records_of_aiperf_have_its_times_and_failed_ones_fail(file: Callable[[Any], Path]) -> None:
    """As Windows writes them too: with a byte-order mark and carriage returns."""
    metadata = AIPERF["metadata"] | {"was_cancelled": True}
    error = {"code": 499, "type": "RequestCancellationError", "message": "cancelled"}
    cancelled = {"metadata": metadata, "metrics": None, "error": error}
    lines = "\r\n".join(map(json.dumps, (AIPERF, cancelled)))
    ended, failed = read_records(file(f"\ufeff{lines}\r\n"))
    expect(ended.trace.summary, new_tokens=10, prompt_tokens=550, steps=UNKNOWN, drafted=UNKNOWN)
    expect(ended.trace.summary, wall_s=0.5, ttft_s=0.25, tokens_per_s=20.0)
    assert ended.trace.status is Status.COMPLETED and ended.created_at is not None
    assert ended.created_at.isoformat(timespec="seconds") == "2025-10-07T05:00:07+00:00"
    assert "a record of AIPerf" in ended.comment and "prompt, text" in ended.comment
    assert failed.trace.status is Status.FAILED
    assert failed.trace.stop_reason is StopReason.CANCELLED
    assert failed.trace.error == "RequestCancellationError: cancelled"
    expect(failed.trace.summary, new_tokens=UNKNOWN)
    assert math.isnan(failed.trace.summary.wall_s)
    latency = {"request_latency": {"value": 1, "unit": "days"}}
    with pytest.raises(ValueError, match=r"the unit of request_latency is 'days'; it must be s"):
        read_records(file(AIPERF | {"metrics": latency}))
