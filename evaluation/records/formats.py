"""Answers of vLLM, SGLang and llama.cpp with what they counted. docs/checking.md has the fields, and
how τ is converted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from evaluation.records.values import NAN, Read, RecordRow, config_of, number
from evaluation.served.answer import answer_of, assembled
from evaluation.served.counts import ServerCounts, counts_of, ids_of, integer, with_counts
from evaluation.served.message import text_of
from evaluation.served.trace import STOPS, ServedToken, served_trace, tokens_of, vllm_steps
from mars_core.types import UNKNOWN, RunConfig, StopReason, Trace

_OF_ALL_CHOICES = ("choices", "usage", "metrics", "timings", "sglext")


def choices_of(row: RecordRow) -> list[tuple[RecordRow, str]]:
    """Return the answer of each choice, with what is to be said of it. What the server counted for
    all of them together is no choice's."""
    choices = row.get("choices")
    if not isinstance(choices, list) or len(choices) < 2:
        return [(row, "")]
    details = (row.get("sglext") or {}).get("spec_tokens_details")  # a list, one for each choice
    if not isinstance(details, list) or len(details) != len(choices):
        details = [None] * len(choices)
    own = {name: row[name] for name in row if name not in _OF_ALL_CHOICES}
    own["usage"] = {"prompt_tokens": (row.get("usage") or {}).get("prompt_tokens")}
    return [
        (
            {**own, "choices": [choice], "sglext": {"spec_tokens_details": detail}},
            f", choice {number} of {len(choices)}, without what was counted for all of them",
        )
        for number, (choice, detail) in enumerate(zip(choices, details, strict=True), 1)
    ]


def read_answer(row: RecordRow) -> Read:
    """Read a completion or chat completion of vLLM; of SGLang, where it has its ``meta_info`` or
    ``sglext``."""
    choice, usage = row["choices"][0], row.get("usage") or {}
    text = text_of(choice)
    details = choice.get("meta_info") or (row.get("sglext") or {}).get("spec_tokens_details")
    if details:
        meta = {"finish_reason": choice.get("finish_reason"), **usage, **details}
        ids = choice.get("token_ids")
        return read_sglang({"output_ids": ids, **row, **choice, "text": text, "meta_info": meta})
    spec = (row.get("metrics") or {}).get("speculative_decoding")
    counts = counts_of(row)
    server = "vLLM" if spec else "a server"
    config = config_of(
        row.get("model", ""), server, k=integer(spec["num_spec_tokens"]) if spec else 0
    )
    trace = _run(
        config,
        text,
        _tokens(row, config),
        str(choice["finish_reason"]),
        counts,
        detail=spec,
        new_tokens=usage.get("completion_tokens"),
        prompt_tokens=usage.get("prompt_tokens"),
        prompt_ids=choice.get("prompt_token_ids"),
    )
    return trace, _created(row), _source(f"an answer of {server}", counts)


def _created(row: RecordRow) -> datetime | None:
    return datetime.fromtimestamp(integer(row["created"]), UTC) if "created" in row else None


def read_sglang(row: RecordRow) -> Read:
    """Read an answer of SGLang."""
    meta, counts = row["meta_info"], counts_of(row)
    reason, k = meta.get("finish_reason"), round(counts.drafted / counts.passes) if counts else 0
    config = config_of(row.get("model", ""), "SGLang", k=k)
    ids = [ServedToken(id_) for id_ in ids_of(row.get("output_ids") or ())]
    trace = _run(
        config,
        str(row.get("text", "")),
        _tokens(row, config) or ids,
        str(reason["type"] if isinstance(reason, dict) else reason),
        counts,
        new_tokens=meta.get("completion_tokens"),
        prompt_tokens=meta.get("prompt_tokens"),
        wall_s=number(meta.get("e2e_latency")),
    )
    return trace, _created(row), _source("an answer of SGLang", counts)


def read_llama(row: RecordRow) -> Read:
    """Read an answer of llama.cpp's server, which does not count passes."""
    timings, counts = row["timings"], counts_of(row)
    choice, usage = row["choices"][0] if "choices" in row else {}, row.get("usage") or {}
    read = (
        timings["prompt_n"] + timings.get("cache_n", 0) if "prompt_n" in timings else None
    )  # cached tokens are no part of prompt_n
    prompt_s, predicted_s = (
        number(timings.get(name)) / 1000 for name in ("prompt_ms", "predicted_ms")
    )
    settings, prompt = row.get("generation_settings") or {}, row.get("prompt")
    config = config_of(
        row.get("model", ""),
        "llama.cpp",
        prompt=prompt if isinstance(prompt, str) else "",
        temperature=number(settings.get("temperature")),
    )
    trace = _run(
        config,
        row.get("content") or text_of(choice),
        _tokens(row, config),
        str(choice.get("finish_reason", row.get("stop_type"))),
        counts,
        new_tokens=timings.get("predicted_n"),
        prompt_tokens=usage.get("prompt_tokens", row.get("tokens_evaluated", read)),
        wall_s=prompt_s + predicted_s,
    )
    trace = replace(trace, summary=replace(trace.summary, prefill_s=prompt_s))
    return trace, None, _source("an answer of llama.cpp", counts)


def _run(
    config: RunConfig,
    text: str,
    tokens: Sequence[ServedToken],
    finish: str,
    counts: ServerCounts | None,
    *,
    new_tokens: Any,
    prompt_tokens: Any,
    prompt_ids: Any = None,
    wall_s: float = NAN,
    detail: Any = None,
) -> Trace:
    """Make a run from an answer. Without ``detail``, or without token ids, its steps are unknown,
    and only their counts are filled in."""
    new = len(tokens) if new_tokens is None else integer(new_tokens)
    trace = served_trace(
        config,
        text=str(text),
        tokens=tokens,
        stop_reason=STOPS.get(finish, StopReason.UNKNOWN),
        new_tokens=new,
        prompt_ids=ids_of(prompt_ids or ()),
        prompt_tokens=UNKNOWN if prompt_tokens is None else integer(prompt_tokens),
        steps=vllm_steps(detail, len(tokens)),
        wall_s=wall_s,
    )
    return with_counts(trace, counts)


def _tokens(row: RecordRow, config: RunConfig) -> list[ServedToken]:
    """Return ids and log probabilities of the tokens, as far as the answer has them."""
    choices = row.get("choices")
    if not choices or not choices[0].get("finish_reason"):
        return []
    return tokens_of(answer_of(assembled([row])), config.sampling)


def _source(name: str, counts: ServerCounts | None) -> str:
    return (
        f"{name}; its own τ is {counts.tau}"
        if counts
        else f"{name} without counts of speculative decoding"
    )
