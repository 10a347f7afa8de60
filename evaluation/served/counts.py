"""What servers count of speculative decoding for one answer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from evaluation.served.answer import Answer
from mars_core.types import UNKNOWN, Trace

LARGEST = 2**53  # of a number


class ServerCounts(NamedTuple):
    """What a server counted for one answer. ``passes``: those that verified a draft, UNKNOWN where
    it does not count them; ``histogram[j]``: passes that accepted j drafted tokens; ``tau``: how
    the server computes its mean acceptance length."""

    passes: int
    drafted: int
    accepted: int
    histogram: Sequence[int]
    tau: str


def counts_of(row: Mapping[str, Any]) -> ServerCounts | None:
    """Return the counts of an answer of vLLM, SGLang or llama.cpp; None where it has none. Raises
    LookupError, TypeError, ValueError or AttributeError."""
    if spec := (row.get("metrics") or {}).get("speculative_decoding"):
        return ServerCounts(
            integer(spec["num_spec_steps"]),
            integer(spec["num_draft_tokens"]),
            integer(spec["num_accepted_draft_tokens"]),
            ids_of(spec["acceptance_histogram"]),
            "1 + accepted tokens / passes with a draft; ours is all tokens / passes",
        )
    details = (row.get("sglext") or {}).get("spec_tokens_details")
    if meta := row.get("meta_info") or details:
        return _of_sglang(meta)
    return _of_llama(row.get("timings") or {})


def _of_sglang(meta: Mapping[str, Any]) -> ServerCounts | None:
    """Read the counts of SGLang, whose names for the counts have changed twice."""

    def first(*names: str) -> Any:
        return next((meta[name] for name in names if meta.get(name) is not None), None)

    passes = meta.get("spec_verify_ct")
    accepted = first("spec_num_correct_drafts", "spec_accepted_drafts", "spec_accept_token_num")
    drafted = first("spec_num_proposed_drafts", "spec_proposed_drafts", "spec_draft_token_num")
    if not passes or accepted is None or drafted is None:
        return None
    histogram = first("spec_correct_drafts_histogram", "spec_accept_histogram") or ()
    return ServerCounts(
        *(integer(passes), integer(drafted), integer(accepted), ids_of(histogram)),
        "all tokens / passes, as ours",
    )


def _of_llama(timings: Mapping[str, Any]) -> ServerCounts | None:
    if "draft_n" not in timings:
        return None
    drafted, accepted = integer(timings["draft_n"]), integer(timings["draft_n_accepted"])
    tau = "not reported; the number of passes follows from the tokens"
    return ServerCounts(UNKNOWN, drafted, accepted, (), tau)


def with_no_drafts(answer: Answer) -> Answer:
    """Return an answer of a server that counts drafts: llama.cpp leaves its counts out where it
    drafted nothing."""
    timings = answer.extra.get("timings")
    if not isinstance(timings, dict):
        return answer
    none = {"draft_n": 0, "draft_n_accepted": 0}
    return replace(answer, extra={**answer.extra, "timings": none | timings})


def with_counts(trace: Trace, counts: ServerCounts | None) -> Trace:
    """Return a run with the counts of its server where its steps are not known. Each pass after the
    prefill adds its accepted tokens and one more, but for the last one where the text ends before."""
    if counts is None or trace.summary.steps != UNKNOWN:
        return trace
    new, steps = trace.summary.new_tokens, sum(counts.histogram)
    least = UNKNOWN if new == UNKNOWN else min(1, counts.drafted)
    passes = max(counts.passes, new - 1 - counts.accepted, least)
    known = passes > 0 and new != UNKNOWN
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
        tau=new / passes if known else math.nan,
        acceptance_rate=counts.accepted / counts.drafted if counts.drafted else math.nan,
        acceptance_by_position=rates,
    )
    return replace(trace, summary=summary)


def ids_of(values: Any) -> list[int]:
    return [integer(value) for value in values]


def integer(value: Any) -> int:
    """Raises ValueError for what is not a whole number."""
    if type(value) is not int or not 0 <= value <= LARGEST:
        raise ValueError(f"{str(value)[:40]!r} is not a whole number from 0 to {LARGEST:,}")
    return value
