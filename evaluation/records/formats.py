"""Answers of vLLM, SGLang and llama.cpp with what they counted. docs/checking.md has the fields, and
how τ is converted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from evaluation.records.streams import own_choice
from evaluation.records.values import Read, RecordRow, config_of, number
from evaluation.served.answer import Part, answer_of, assembled, part_of
from evaluation.served.counts import ServerCounts, counts_of, integer
from evaluation.served.trace import answer_trace

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
    choice = (row.get("choices") or [own_choice(row)])[0]
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
    parts = tuple(part for each in choice.get("parts") or () if (part := part_of(each)))
    usage = _usage(row, meta, timings, parts)
    answer = answer_of(assembled([{**row, "choices": [choice], "usage": usage}]))
    prompt_s, new_s = (number(timings.get(name)) / 1000 for name in ("prompt_ms", "predicted_ms"))
    wall_s = prompt_s + new_s if timings else number(meta.get("e2e_latency"))
    trace = answer_trace(config, replace(answer, parts=parts, wall_s=wall_s))
    trace = replace(trace, summary=replace(trace.summary, prefill_s=prompt_s))
    created = datetime.fromtimestamp(integer(row["created"]), UTC) if "created" in row else None
    own = f"; its own τ is {counts.tau}" if counts else " without counts of speculative decoding"
    return trace, created, f"an answer of {server}{own}"


def _drafted(counts: ServerCounts | None) -> int:
    """Return how many tokens a pass drafted; 0 where that is not known."""
    return round(counts.drafted / counts.passes) if counts and counts.passes > 0 else 0


def _usage(
    row: RecordRow, meta: RecordRow, timings: RecordRow, parts: Sequence[Part]
) -> dict[str, int]:
    """Return the numbers of tokens that were read and written, as far as they are known."""
    usage = {**(row.get("usage") or {}), **meta}
    read = usage.get("prompt_tokens", row.get("tokens_evaluated"))
    if read is None and "prompt_n" in timings:  # which has no cached tokens
        read = timings["prompt_n"] + timings.get("cache_n", 0)
    new = timings.get("predicted_n", usage.get("completion_tokens"))
    if new is None and parts:
        new = sum(max(part.tokens, len(part.positions)) for part in parts)
    known = {"prompt_tokens": read, "completion_tokens": new}
    return {name: integer(value) for name, value in known.items() if value is not None}
