"""Answers of vLLM, SGLang and llama.cpp with what they counted. docs/checking.md has the fields, and
how τ is converted."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from evaluation.records.streams import own_choice
from evaluation.records.values import Read, RecordRow, config_of, number
from evaluation.served.answer import answer_of, assembled, part_of
from evaluation.served.counts import ServerCounts, counts_of, ids_of, integer, with_counts
from evaluation.served.message import text_of
from evaluation.served.tokens import STOPS, ServedToken, tokens_of
from evaluation.served.trace import served_trace, vllm_steps
from mars_core.types import UNKNOWN, RunConfig, StopReason

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
    """Read a completion or chat completion, or an answer of the own endpoints of SGLang
    (``meta_info``) and llama.cpp (``timings``, without a count of passes)."""
    choice = row["choices"][0] if "choices" in row else row
    meta, timings = row.get("meta_info") or choice.get("meta_info") or {}, row.get("timings") or {}
    spec = (row.get("metrics") or {}).get("speculative_decoding")
    counts, server = counts_of({**row, "meta_info": meta}), "vLLM" if spec else "a server"
    if meta or (row.get("sglext") or {}).get("spec_tokens_details"):
        server = "SGLang"
    elif "timings" in row:
        server = "llama.cpp"
    prompt, settings = row.get("prompt"), row.get("generation_settings") or {}
    config = config_of(
        row.get("model", ""),
        server,
        k=integer(spec["num_spec_tokens"]) if spec else _drafted(counts),
        prompt=prompt if isinstance(prompt, str) else "",
        temperature=number(settings.get("temperature")),
    )
    read, usage = row.get("tokens_evaluated"), {**(row.get("usage") or {}), **meta}
    if read is None and "prompt_n" in timings:  # which has no cached tokens
        read = timings["prompt_n"] + timings.get("cache_n", 0)
    read, new = usage.get("prompt_tokens", read), usage.get("completion_tokens")
    new = timings.get("predicted_n", new)
    tokens = _tokens(row, new, config)
    prompt_s, new_s = (number(timings.get(name)) / 1000 for name in ("prompt_ms", "predicted_ms"))
    ended = meta.get("finish_reason") or choice.get("finish_reason") or row.get("stop_type")
    trace = served_trace(
        config,
        text=str(row.get("content") or text_of(choice)),
        tokens=tokens,
        stop_reason=STOPS.get(
            str(ended["type"] if isinstance(ended, dict) else ended), StopReason.UNKNOWN
        ),
        new_tokens=len(tokens) if new is None else integer(new),
        prompt_ids=ids_of(choice.get("prompt_token_ids") or ()),
        prompt_tokens=UNKNOWN if read is None else integer(read),
        steps=vllm_steps(spec, len(tokens)),
        wall_s=prompt_s + new_s if timings else number(meta.get("e2e_latency")),
    )
    trace = replace(trace, summary=replace(trace.summary, prefill_s=prompt_s))
    created = datetime.fromtimestamp(integer(row["created"]), UTC) if "created" in row else None
    own = f"; its own τ is {counts.tau}" if counts else " without counts of speculative decoding"
    return with_counts(trace, counts), created, f"an answer of {server}{own}"


def _drafted(counts: ServerCounts | None) -> int:
    """Return how many tokens a pass drafted; 0 where that is not known."""
    return round(counts.drafted / counts.passes) if counts and counts.passes > 0 else 0


def _tokens(row: RecordRow, new: Any, config: RunConfig) -> list[ServedToken]:
    """Return ids and log probabilities of the tokens, as far as the answer has them; those of a
    stream by its parts where it has them for some tokens only. ``new``: as many as the server
    counted; None where it counted none."""
    choices = row.get("choices") or [own_choice(row)]
    if not choices[0].get("finish_reason"):
        return [ServedToken(id_) for id_ in ids_of(row.get("output_ids") or ())]
    parts = tuple(part for each in choices[0].get("parts") or () if (part := part_of(each)))
    if new is None:
        new = sum(max(part.tokens, len(part.positions)) for part in parts)
    whole = {**row, "choices": choices, "usage": {"completion_tokens": new}}
    answer = answer_of(assembled([whole]))
    return tokens_of(replace(answer, parts=parts), config.sampling)
