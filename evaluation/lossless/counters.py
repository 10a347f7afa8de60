"""The counters of speculative decoding in ``/metrics``: whether drafts were verified at all, and whether the numbers can be true."""

from __future__ import annotations

import math
from collections.abc import Iterator

from evaluation.format import count, plural
from evaluation.lossless.values import Finding, Verdict
from evaluation.records.counters import Counters, read_counters
from evaluation.served.client import Client, ServerError

ENOUGH = 50  # drafts
TITLE = "Counters of /metrics"


def counters_of(server: Client) -> Counters | None:
    """None where the server has none."""
    try:
        return read_counters(server.metrics())
    except (ServerError, ValueError):
        return None


def counters_finding(before: Counters | None, after: Counters | None) -> Finding:
    """What the requests of the check added to the counters; those of other clients in the meantime are in it."""
    if before is None or after is None or math.isnan(after.drafts):
        return Finding(TITLE, Verdict.NOT_TESTED, "The server has no counters of speculative decoding.")
    drafts, drafted, accepted = (
        int(getattr(after, name) - getattr(before, name)) for name in ("drafts", "drafted", "accepted")
    )
    earlier = (*before.accepted_at, *[0.0] * len(after.accepted_at))
    places = [int(now - then) for now, then in zip(after.accepted_at, earlier, strict=False)]
    doubts = list(_doubts(drafts, drafted, accepted, places))
    verdict = Verdict.NOT_KNOWN if doubts else Verdict.LOSSLESS
    counted = f"{plural(drafts, 'draft')}, {count(accepted)} of {plural(drafted, 'drafted token')} accepted."
    return Finding(TITLE, verdict, " ".join([counted, *doubts]))


def _doubts(drafts: int, drafted: int, accepted: int, places: list[int]) -> Iterator[str]:
    """``places[i]``: drafts of which more than i tokens were accepted."""
    if drafts < ENOUGH:
        yield f"Fewer than {ENOUGH}: speculative decoding was hardly tested."
    elif accepted == 0:
        yield "No drafted token was accepted: drafts are useless or not verified."
    elif accepted == drafted:
        yield "Every drafted token was accepted: they may not be verified."
    elif places:
        length = round(drafted / drafts)
        deepest = max((place + 1 for place, number in enumerate(places) if number), default=0)
        if sum(places) != accepted:
            yield f"The accepted tokens by position add up to {count(sum(places))}: the histogram is incomplete."
        elif deepest < length and places[deepest - 1] >= ENOUGH:
            cut = f"{count(places[deepest - 1])} drafts have {deepest} accepted tokens of {length}, and none has more"
            yield f"{cut}: the histogram or the acceptance is cut there."
