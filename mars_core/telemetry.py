"""Steps to numbers: the summary of a run and the first difference of two runs. Standard library only."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mars_core.types import Cause, Divergence, Outcome, Step, Summary, Token, Trace


def summarise(
    steps: Sequence[Step], *, prompt_tokens: int, prefill_s: float, ttft_s: float, peak_memory_bytes: int
) -> Summary:
    """All numbers of a run from its steps. The wall time ends with the last step."""
    tokens = [token for step in steps for token in step.emitted]
    counts = {outcome: sum(token.outcome is outcome for token in tokens) for outcome in Outcome}
    drafted = sum(step.drafted for step in steps)
    kept = counts[Outcome.ACCEPTED] + counts[Outcome.RELAXED]
    wall_s = steps[-1].elapsed_s if steps else prefill_s
    return Summary(
        new_tokens=len(tokens),
        prompt_tokens=prompt_tokens,
        steps=len(steps),
        wall_s=wall_s,
        ttft_s=ttft_s,
        prefill_s=prefill_s,
        draft_s=sum(step.draft_s for step in steps),
        verify_s=sum(step.verify_s for step in steps),
        tokens_per_s=_ratio(len(tokens), wall_s),
        tau=_ratio(len(tokens), len(steps)),
        drafted=drafted,
        accepted=counts[Outcome.ACCEPTED],
        relaxed=counts[Outcome.RELAXED],
        rejected=drafted - kept,
        recovered=counts[Outcome.RECOVERED],
        bonus=counts[Outcome.BONUS],
        acceptance_rate=_ratio(kept, drafted),
        acceptance_by_position=_by_position(steps),
        relaxed_share=_ratio(counts[Outcome.RELAXED], len(tokens)),
        tv_sum=math.fsum(token.tv for token in tokens),
        peak_memory_bytes=peak_memory_bytes,
    )


def _by_position(steps: Sequence[Step]) -> tuple[float, ...]:
    """Kept at draft position i / drafted at i, for i = 1 … the longest draft."""
    longest = max((step.drafted for step in steps), default=0)
    offered = [sum(step.drafted >= i for step in steps) for i in range(1, longest + 1)]
    kept = [sum(step.kept >= i for step in steps) for i in range(1, longest + 1)]
    return tuple(_ratio(part, whole) for part, whole in zip(kept, offered, strict=True))


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else math.nan


def first_divergence(baseline: Trace, other: Trace) -> Divergence | None:
    """The first position at which the texts differ, and why; None where the token ids are the same."""
    pairs = zip(baseline.tokens, other.tokens, strict=False)
    position = next((at for at, (left, right) in enumerate(pairs) if left.id != right.id), None)
    if position is not None:
        left, right = baseline.tokens[position], other.tokens[position]
        cause = _cause(left, right)
        return Divergence(position, cause, min(left.edge, right.edge) if cause is Cause.NUMERIC else math.nan)
    shorter = min(len(baseline.tokens), len(other.tokens))
    return None if len(baseline.tokens) == len(other.tokens) else Divergence(shorter, Cause.LENGTH, math.nan)


def _cause(left: Token, right: Token) -> Cause:
    """Up to here both runs read the same text, so p is the same but for rounding."""
    if Outcome.RELAXED in (left.outcome, right.outcome):
        return Cause.RELAXED
    if left.own != right.own:
        return Cause.NUMERIC
    kept = Outcome.ACCEPTED
    if (left.outcome is kept) != (right.outcome is kept):
        return Cause.TIGHTENED
    return Cause.REDRAWN
