"""Answers of vLLM, SGLang and llama.cpp with what they counted. docs/checking.md has the fields, and
how τ is converted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from evaluation.records.values import NAN, Read, RecordRow, config_of, ids_of, integer, number
from evaluation.served.answer import text_of
from evaluation.served.trace import STOPS, ServedToken, served_trace, vllm_steps
from mars_core.types import UNKNOWN, RunConfig, StopReason, Trace

_OF_ALL_CHOICES = ("choices", "usage", "metrics", "timings", "sglext")


class ServerCounts(NamedTuple):
    """What a server counted for one answer. ``passes``: those that verified a draft, UNKNOWN where
    it does not count them; ``histogram[j]``: passes that accepted j drafted tokens; ``tau``: how
    the server computes its mean acceptance length."""

    passes: int
    drafted: int
    accepted: int
    histogram: Sequence[int]
    tau: str


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
    counts = spec and ServerCounts(
        integer(spec["num_spec_steps"]),
        integer(spec["num_draft_tokens"]),
        integer(spec["num_accepted_draft_tokens"]),
        ids_of(spec["acceptance_histogram"]),
        "1 + accepted tokens / passes with a draft; ours is all tokens / passes",
    )
    server = "vLLM" if spec else "a server"
    config = config_of(
        row.get("model", ""), server, k=integer(spec["num_spec_tokens"]) if spec else 0
    )
    trace = _run(
        config,
        text,
        ids_of(choice.get("token_ids") or ()),
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
    """Read an answer of SGLang. Its names for the counts have changed twice."""
    meta = row["meta_info"]

    def first(*names: str) -> Any:
        return next((meta[name] for name in names if meta.get(name) is not None), None)

    passes = meta.get("spec_verify_ct")
    accepted = first("spec_num_correct_drafts", "spec_accepted_drafts", "spec_accept_token_num")
    drafted = first("spec_num_proposed_drafts", "spec_proposed_drafts", "spec_draft_token_num")
    counts = None
    if passes and accepted is not None and drafted is not None:
        histogram = ids_of(first("spec_correct_drafts_histogram", "spec_accept_histogram") or ())
        counts = ServerCounts(
            integer(passes),
            integer(drafted),
            integer(accepted),
            histogram,
            "all tokens / passes, as ours",
        )
    reason = meta.get("finish_reason")
    trace = _run(
        config_of(
            row.get("model", ""), "SGLang", k=round(counts.drafted / counts.passes) if counts else 0
        ),
        str(row.get("text", "")),
        ids_of(row.get("output_ids") or ()),
        str(reason["type"] if isinstance(reason, dict) else reason),
        counts,
        new_tokens=meta.get("completion_tokens"),
        prompt_tokens=meta.get("prompt_tokens"),
        wall_s=number(meta.get("e2e_latency")),
    )
    return trace, _created(row), _source("an answer of SGLang", counts)


def read_llama(row: RecordRow) -> Read:
    """Read an answer of llama.cpp's server. It does not count passes: each one after the prefill
    adds its accepted tokens and one more."""
    timings = row["timings"]
    counts = None
    if "draft_n" in timings:
        drafted, accepted = (
            integer(timings["draft_n"]),
            integer(timings["draft_n_accepted"]),
        )
        counts = ServerCounts(
            UNKNOWN,
            drafted,
            accepted,
            (),
            "not reported; the number of passes follows from the tokens",
        )
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
        (),
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
    ids: Sequence[int],
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
    new = len(ids) if new_tokens is None else integer(new_tokens)
    trace = served_trace(
        config,
        text=str(text),
        tokens=[ServedToken(id_) for id_ in ids],
        stop_reason=STOPS.get(finish, StopReason.UNKNOWN),
        new_tokens=new,
        prompt_ids=ids_of(prompt_ids or ()),
        prompt_tokens=UNKNOWN if prompt_tokens is None else integer(prompt_tokens),
        steps=vllm_steps(detail, len(ids)),
        wall_s=wall_s,
    )
    if counts is None or trace.summary.steps != UNKNOWN:
        return trace
    passes, steps = max(counts.passes, new - 1 - counts.accepted), sum(counts.histogram)
    rates = (
        tuple(sum(counts.histogram[depth:]) / steps for depth in range(1, len(counts.histogram)))
        if steps
        else ()
    )
    summary = replace(
        trace.summary,
        steps=passes,
        drafted=counts.drafted,
        rejected=counts.drafted - counts.accepted,
        tau=new / passes if passes > 0 else NAN,
        acceptance_rate=counts.accepted / counts.drafted if counts.drafted else NAN,
        acceptance_by_position=rates,
    )
    return replace(trace, summary=summary)


def _source(name: str, counts: ServerCounts | None) -> str:
    return (
        f"{name}; its own τ is {counts.tau}"
        if counts
        else f"{name} without counts of speculative decoding"
    )
