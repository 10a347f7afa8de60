"""The text of ``/metrics`` of vLLM or llama.cpp: the counters of speculative decoding since the server
started."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

from prometheus_client.parser import text_string_to_metric_families

from evaluation.served.client import Client
from evaluation.served.counts import ServerCounts
from evaluation.served.server import ServerError

# Prefix of a server's metrics, and its count of new tokens.
_SERVERS = {"vllm": "generation_tokens", "llamacpp": "tokens_predicted"}

DRAFTS = "spec_decode_num_drafts_total"
WHOLE = "by /metrics of the server as a whole, which wrote this answer alone between two readings"


@dataclass(frozen=True, slots=True)
class Counters:
    """Totals over all engines of a server; nan, or empty, where it does not report them.

    ``accepted_at[i]``: drafts of which more than i tokens were accepted.
    """

    new_tokens: float
    drafts: float
    drafted: float
    accepted: float
    accepted_at: tuple[float, ...]

    def since(self, before: Counters) -> Counters:
        """Return what was counted after an earlier reading."""
        earlier = (*before.accepted_at, *[0.0] * len(self.accepted_at))
        return Counters(
            self.new_tokens - before.new_tokens,
            self.drafts - before.drafts,
            self.drafted - before.drafted,
            self.accepted - before.accepted,
            tuple(now - then for now, then in zip(self.accepted_at, earlier, strict=False)),
        )


def read_counters(text: str) -> Counters:
    """Raises ValueError for a text that is not in Prometheus' format or reports no speculative
    decoding."""
    totals: defaultdict[str, float] = defaultdict(lambda: math.nan)
    by_position: defaultdict[int, float] = defaultdict(float)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            server, _, name = sample.name.partition(":")
            if name == "spec_decode_num_accepted_tokens_per_pos_total":
                by_position[int(sample.labels.get("position", ""))] += sample.value
            elif server in _SERVERS:
                name = "new_tokens_total" if name == f"{_SERVERS[server]}_total" else name
                before = totals[name]
                totals[name] = sample.value + (0.0 if math.isnan(before) else before)
    if math.isnan(totals[DRAFTS]):
        raise ValueError(f"The text has no counter {DRAFTS} of vLLM or llama.cpp.")
    return Counters(
        totals["new_tokens_total"],
        totals[DRAFTS],
        totals["spec_decode_num_draft_tokens_total"],
        totals["spec_decode_num_accepted_tokens_total"],
        tuple(by_position[position] for position in sorted(by_position)),
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
