"""The summary of a run and the first difference of two runs."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from operator import eq
from typing import Any

from mars_core.types import (
    COUNTS,
    UNKNOWN,
    Cause,
    Divergence,
    Outcome,
    PrefixToken,
    Step,
    Summary,
    Token,
    Trace,
)

LOOP = 24  # tokens of the shortest loop
PERIOD = 64  # tokens of the longest span that is looked for within a text
# a token's distribution counts as shifted where its TV from p is above this: float64 leaves less
# where the two are equal
SHIFTED = 1e-9

UNREPORTED: Mapping[str, float] = {  # of a run whose steps are not known
    **dict.fromkeys(
        ("steps", "drafted", "accepted", "relaxed", "rejected", "recovered", "bonus"), UNKNOWN
    ),
    **dict.fromkeys(("tau", "acceptance_rate", "relaxed_share"), math.nan),
}
HEAD_CONTEXT = "head context"  # in a run's environment: tokens, by the head's configuration


def summarise(
    steps: Sequence[Step], *, prompt_tokens: int, prefill_s: float, peak_memory_bytes: int
) -> Summary:
    """Compute all numbers of a run from its steps. The wall time ends with the last step. A sum of
    times, distances or log probabilities, a share, mean or maximum over an empty set is nan, a
    count 0; values that the run did not measure (nan) propagate, and so do steps that a server did
    not report, whose ``drafted`` is UNKNOWN."""
    tokens = [token for step in steps for token in step.emitted]
    new_tokens, drafted = len(tokens), sum(step.drafted for step in steps)
    counts = {outcome: sum(token.outcome is outcome for token in tokens) for outcome in Outcome}
    accepted, relaxed = counts[Outcome.ACCEPTED], counts[Outcome.RELAXED]
    tv, kl = [token.tv for token in tokens], [token.kl for token in tokens]
    tv_sum, kl_sum, log_likelihood = _sum(tv), _sum(kl), _sum([token.logprob for token in tokens])
    wall_s = steps[-1].elapsed_s if steps else prefill_s
    shifts = [_largest([token.tv for token in step.emitted]) for step in steps]
    shifted = math.nan if any(map(math.isnan, shifts)) else sum(shift > SHIFTED for shift in shifts)
    loop_tokens, loop_start = loop_of([token.id for token in tokens])
    tau, speed = _before(steps, loop_start)
    summary = Summary(
        new_tokens=new_tokens,
        prompt_tokens=prompt_tokens,
        steps=len(steps),
        wall_s=wall_s,
        ttft_s=steps[0].elapsed_s if steps else math.nan,
        prefill_s=prefill_s,
        draft_s=_sum([step.draft_s for step in steps]),
        verify_s=_sum([step.verify_s for step in steps]),
        tokens_per_s=_ratio(new_tokens, wall_s),
        tau=_ratio(new_tokens, len(steps)),
        drafted=drafted,
        accepted=accepted,
        relaxed=relaxed,
        rejected=drafted - accepted - relaxed,
        recovered=counts[Outcome.RECOVERED],
        bonus=counts[Outcome.BONUS],
        acceptance_rate=_ratio(accepted + relaxed, drafted),
        acceptance_by_position=_by_position(steps),
        relaxed_share=_ratio(relaxed, new_tokens),
        tv_sum=tv_sum,
        tv_mean=_ratio(tv_sum, new_tokens),
        tv_max=_largest(tv),
        kl_sum=kl_sum,
        kl_mean=_ratio(kl_sum, new_tokens),
        kl_max=_largest(kl),
        shifted_share=_ratio(shifted, len(steps)),
        log_likelihood=log_likelihood,
        perplexity=_exp(-_ratio(log_likelihood, new_tokens)),
        peak_memory_bytes=peak_memory_bytes,
        overshoot_max=_largest([token.overshoot for token in tokens]),
        loop_tokens=loop_tokens,
        loop_start=loop_start,
        tau_before_loop=tau,
        tokens_per_s_before_loop=speed,
    )
    unreported: dict[str, Any] = {**UNREPORTED, "tau_before_loop": math.nan}
    reported = all(step.drafted != UNKNOWN for step in steps)
    return summary if reported else replace(summary, **unreported)


def _before(steps: Sequence[Step], position: int) -> tuple[float, float]:
    """τ and tokens per second of the steps that end before a position of the new tokens; nan where
    there is none."""
    ends = list(accumulate(len(step.emitted) for step in steps))
    count = bisect_right(ends, position)
    if not count:
        return math.nan, math.nan
    return _ratio(ends[count - 1], count), _ratio(ends[count - 1], steps[count - 1].elapsed_s)


def loop_of(ids: Sequence[int]) -> tuple[int, int]:
    """Return ``Summary.loop_tokens`` and ``loop_start``, in linear time; UNKNOWN where an id is.
    The last token may be another, as an end of turn."""
    if UNKNOWN in ids:
        return UNKNOWN, UNKNOWN
    return max(_repeated_end(ids), _repeated_end(ids[:-1]))


def _repeated_end(ids: Sequence[int]) -> tuple[int, int]:
    """Return span and start of the longest end that is a span three times or more in a row."""
    backwards, span, length = ids[::-1], 0, 0
    borders = [0]  # of each beginning: the longest end of it that it begins with (Knuth)
    for at in range(1, len(ids)):
        border = borders[-1]
        while border and backwards[border] != backwards[at]:
            border = borders[border - 1]
        borders.append(border + (backwards[border] == backwards[at]))
        period = at + 1 - borders[-1]
        if at + 1 >= max(LOOP, 3 * period):
            span, length = period, at + 1
    return span, len(ids) - length + span if span else UNKNOWN


def loops_within(ids: Sequence[int]) -> list[tuple[int, int]]:
    """Return where a text loops: a span of at most ``PERIOD`` tokens, three times or more in a row
    and at least ``LOOP`` tokens in all. Each from the first repeat to after the last; what repeats
    with several spans is there for each. Where an id is unknown there are none."""
    found: list[tuple[int, int]] = []
    if UNKNOWN in ids:
        return found
    for period in range(1, min(PERIOD, len(ids) // 3) + 1):
        equal = bytes(map(eq, ids[period:], ids))
        least, at = max(LOOP, 3 * period) - period, period
        for run in equal.split(b"\0") if b"\1" * least in equal else ():
            if len(run) >= least:
                found.append((at, at + len(run)))
            at += len(run) + 1
    return found


def _by_position(steps: Sequence[Step]) -> tuple[float, ...]:
    """Steps that accepted a token at depth i / steps that drafted one there, for i = 1 … the
    deepest draft."""
    depths = [step.depth for step in steps]  # smaller depths are drafted too
    positions = range(1, max(depths, default=0) + 1)
    return tuple(
        _ratio(sum(step.kept >= i for step in steps), sum(depth >= i for depth in depths))
        for i in positions
    )


def _largest(values: Sequence[float]) -> float:
    return math.nan if not values or any(map(math.isnan, values)) else max(values)


def _sum(values: Sequence[float]) -> float:
    return math.fsum(values) if values else math.nan


def _ratio(part: float, total: float) -> float:
    return part / total if total else math.nan


def _exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def first_divergence(baseline: Trace, other: Trace) -> Divergence | None:
    """Return the first output position at which the texts differ, and why; None where the token ids
    are the same, or, of a run here and one of a server, the texts. Given tokens are the beginning
    of the text: a difference at a given token of either run has the cause CHOSEN."""
    if baseline.config.served != other.config.served:
        return _of_texts(baseline, other)
    one, two = baseline.output, other.output
    # By their pieces where a server did not report an id.
    differ = (
        a.piece != b.piece if UNKNOWN in (a.id, b.id) else a.id != b.id
        for a, b in zip(one, two, strict=False)
    )
    position = next((at for at, differs in enumerate(differ) if differs), None)
    if position is None:
        return (
            None
            if len(one) == len(two)
            else Divergence(min(len(one), len(two)), Cause.LENGTH, math.nan)
        )
    left, right = one[position], two[position]
    if isinstance(left, PrefixToken) or isinstance(right, PrefixToken):
        return Divergence(position, Cause.CHOSEN, math.nan)
    if baseline.config.prompt.history != other.config.prompt.history:
        return Divergence(position, Cause.HISTORY, math.nan)
    cause = _cause(left, right)
    return Divergence(
        position, cause, min(left.edge, right.edge) if cause is Cause.NUMERIC else math.nan
    )


def _of_texts(baseline: Trace, other: Trace) -> Divergence | None:
    """Return where the texts of a run here and one of a server differ, whose tokens may be others:
    the position is that of the run here."""
    texts = (baseline.text, other.text)
    if texts[0] == texts[1]:
        return None
    differ = (at for at, (one, two) in enumerate(zip(*texts, strict=False)) if one != two)
    same = next(differ, min(map(len, texts)))
    here = other if baseline.config.served else baseline
    position = bisect_right([token.end for token in here.output], same)
    histories = {trace.config.prompt.history for trace in (baseline, other)}
    cause = Cause.HISTORY if len(histories) > 1 else Cause.UNKNOWN
    return Divergence(position, Cause.LENGTH if same in map(len, texts) else cause, math.nan)


def _cause(left: Token, right: Token) -> Cause:
    """Return the cause. Both runs have read the same text up to here, so p is the same except for
    rounding."""
    if Outcome.RELAXED in (left.outcome, right.outcome):
        return Cause.RELAXED
    if UNKNOWN in (left.own, right.own):
        return Cause.UNKNOWN
    if left.own != right.own:
        return Cause.NUMERIC
    one_accepted = (left.outcome is Outcome.ACCEPTED) != (right.outcome is Outcome.ACCEPTED)
    return Cause.TIGHTENED if one_accepted else Cause.REDRAWN


def spent_before(trace: Trace, position: int) -> tuple[float, ...]:
    """Return ``RunConfig.spent`` of a run that continues at an output position of this one; within
    given tokens what all of them have spent. Empty where no rule reads it."""
    at = max(0, position - len(trace.given))
    tokens = trace.tokens
    charged = tokens[at].regret if at < len(tokens) else math.nan
    dynamic = any(isinstance(value, str) for value in trace.config.rule.parameters.values())
    if not dynamic and math.isnan(charged) and not trace.config.spent:
        return ()
    tv, regret = trace.config.spent or (0.0, 0.0)
    tv += sum(token.tv for token in tokens[:at])
    return tv, regret if math.isnan(charged) else charged


def counted_note(trace: Trace) -> str:
    """Return whose τ and acceptance those of a server's run are; empty where they are its own."""
    counts = trace.config.environment.get(COUNTS)
    return f"τ and acceptance of {trace.config.target.name} are {counts}." if counts else ""


def beyond_head(trace: Trace) -> str:
    """Return why drafts of an EAGLE-3 head may be worse than it can be; empty where it was trained
    for texts as long as this one."""
    trained = int(trace.config.environment.get(HEAD_CONTEXT, 0))
    length = len(trace.prompt_ids) + len(trace.token_ids)
    if trace.config.drafter.kind != "eagle3" or not trained or length <= trained:
        return ""
    return (
        f"The EAGLE-3 head was trained for {trained:,} tokens, and this text has {length:,}: its "
        "later drafts are beyond what it was trained for, and fewer may be accepted."
    )
