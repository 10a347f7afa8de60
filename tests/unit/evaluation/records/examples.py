"""Records as servers write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from evaluation.records.read import read_records
from mars_core.types import Trace


def step(*values: Any) -> dict[str, Any]:
    names = ("drafted", "kept", "relaxed", "z1", "z2", "id1", "id2", "emitted")
    return dict(zip(names, values, strict=True))


AIPERF: dict[str, Any] = {
    "metadata": {"request_start_ns": 1_759_813_207_532_900_363, "was_cancelled": False},
    "metrics": {
        "input_sequence_length": {"value": 550, "unit": "tokens"},
        "output_sequence_length": {"value": 10, "unit": "tokens"},
        "time_to_first_token": {"value": 250.0, "unit": "ms"},
        "request_latency": {"value": 0.5, "unit": "s"},
    },
    "error": None,
}
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


def only(path: Path) -> tuple[Trace, str]:
    (record,) = read_records(path)
    return record.trace, record.comment
