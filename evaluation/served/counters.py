"""The text of ``/metrics`` of vLLM, llama.cpp or SGLang: the counters of speculative decoding since
the server started."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import pairwise

from prometheus_client.parser import text_string_to_metric_families

from evaluation.served.client import Client, ServerError
from evaluation.served.counts import ServerCounts

# Prefix of a server's metrics, its name, and its counts of prompt tokens (those of llama.cpp are
# without cached ones) and new tokens.
_SERVERS = (
    ("vllm:", "vLLM", ("prompt_tokens",), "generation_tokens"),
    ("llamacpp:", "llama.cpp", ("prompt_tokens", "prompt_tokens_cached"), "tokens_predicted"),
    ("sglang:", "SGLang", ("prompt_tokens",), "generation_tokens"),
)

WHOLE = "by /metrics of the server as a whole, which wrote this answer alone between two readings"


@dataclass(frozen=True, slots=True)
class Counters:
    """Totals over all engines of a server; nan, or empty, where it does not report them.

    ``accepted_at[i]``: drafts of which more than i tokens were accepted. ``tau`` and
    ``acceptance_rate``: SGLang's gauges, of the latest batches; tau is tokens per pass, with the
    bonus token. ``relaxed``: of mars-vllm.
    """

    server: str
    model: str
    prompt_tokens: float
    new_tokens: float
    drafts: float
    drafted: float
    accepted: float
    accepted_at: tuple[float, ...]
    tau: float
    acceptance_rate: float
    relaxed: float

    def since(self, before: Counters) -> Counters:
        """Return what was counted after an earlier reading; gauges as they are now."""
        totals = "prompt_tokens", "new_tokens", "drafts", "drafted", "accepted", "relaxed"
        added = {name: getattr(self, name) - getattr(before, name) for name in totals}
        earlier = (*before.accepted_at, *[0.0] * len(self.accepted_at))
        accepted_at = (now - then for now, then in zip(self.accepted_at, earlier, strict=False))
        return replace(self, accepted_at=tuple(accepted_at), **added)


def read_counters(text: str) -> Counters:
    """Raises ValueError for a text that is not in Prometheus' format or reports no speculative
    decoding."""
    samples: defaultdict[str, list[float]] = defaultdict(list)
    by_position: defaultdict[int, float] = defaultdict(float)
    models: set[str] = set()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            samples[sample.name].append(float(sample.value))
            if sample.name.endswith(":spec_decode_num_accepted_tokens_per_pos_total"):
                by_position[int(sample.labels.get("position", ""))] += sample.value
            models |= {sample.labels.get("model_name", "")} - {""}

    prefix, server, prompt, new = next(
        (each for each in _SERVERS if any(name.startswith(each[0]) for name in samples)),
        _SERVERS[0],
    )

    def total(*names: str) -> float:
        known = [
            samples[f"{prefix}{name}_total"] for name in names if f"{prefix}{name}_total" in samples
        ]
        return sum(map(sum, known)) if known else math.nan

    drafts, tau = (
        total("spec_decode_num_drafts"),
        samples.get("sglang:spec_accept_length", [math.nan]),
    )
    if math.isnan(drafts) and math.isnan(tau[0]):
        raise ValueError(
            "The text has no counter spec_decode_num_drafts_total of vLLM or llama.cpp, and no "
            "sglang:spec_accept_length."
        )
    rates = samples.get("sglang:spec_accept_rate", [math.nan])
    return Counters(
        server=server,
        model=", ".join(sorted(models)),
        prompt_tokens=total(*prompt),
        new_tokens=total(new),
        drafts=drafts,
        drafted=total("spec_decode_num_draft_tokens"),
        accepted=total("spec_decode_num_accepted_tokens"),
        accepted_at=tuple(by_position[position] for position in sorted(by_position)),
        tau=sum(tau) / len(tau),
        acceptance_rate=sum(rates) / len(rates),
        relaxed=total("mars_relaxed_tokens"),
    )


def counters_of(server: Client) -> Counters | None:
    """Read the counters of speculative decoding in ``/metrics``; None where the server has none."""
    try:
        return read_counters(server.metrics())
    except (ServerError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError):
        return None


def counts_between(
    before: Counters | None, after: Counters | None, new_tokens: int
) -> ServerCounts | None:
    """Return what a server counted between two readings, where it wrote as many tokens in between
    as one answer has: then it wrote nothing else. None otherwise."""
    if before is None or after is None or new_tokens < 1:
        return None
    added = after.since(before)
    if added.new_tokens != new_tokens:
        return None
    counted = [added.drafts, added.drafted, added.accepted]
    if not all(math.isfinite(count) and count >= 0 for count in counted) or not counted[0]:
        return None
    exactly = [more - most for more, most in pairwise((counted[0], *added.accepted_at, 0.0))]
    histogram = exactly if added.accepted_at and min(exactly) >= 0 else []
    passes, drafted, accepted = map(int, counted)
    return ServerCounts(passes, drafted, accepted, tuple(map(int, histogram)), WHOLE)
