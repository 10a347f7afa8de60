"""What would have followed if a relaxed token had been rejected: strict continues from just before
it, with the target's token instead, and from just after it. Both texts have the noise of the run,
which depends on the output position, and so differ by this one decision. And what would have
followed if a token that strict rejected had been relaxed alone."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from mars_core.types import (
    DraftMode,
    Outcome,
    RuleConfig,
    RunConfig,
    Status,
    StopReason,
    Token,
    Trace,
)

LEAST = 8  # equal tokens up to the end, with which two texts meet again


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """A relaxed token, and what strict writes with the target's token in its stead (``strict_…``)
    and after it (``relaxed_…``). Token counts and means of ln p are of the text from ``position``
    on; scores and ``changed`` are those of the grader. Unknown values are None or nan.

    ``meets_after``: tokens from ``position`` on, in the longer of the two beginnings, after which
    both texts are the same; None if they do not meet (``meets_after`` of this module).
    """

    position: int
    kind: str  # of the relaxed token: number, word, punctuation, code
    r: float
    gap: float
    entropy: float
    meets_after: int | None
    strict_tokens: int
    relaxed_tokens: int
    strict_logprob: float
    relaxed_logprob: float
    changed: bool | None = None  # whether the two answers differ
    strict_score: float = math.nan
    relaxed_score: float = math.nan


class Ending(NamedTuple):
    """What a run wrote from a position on. ``ended``: not by the token limit; ``text``: of the
    complete run."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    ended: bool
    text: str


def relaxed_positions(run: Trace) -> list[int]:
    """Return the output positions of its relaxed tokens."""
    return [token.position for token in run.tokens if token.outcome is Outcome.RELAXED]


def rejected_tokens(run: Trace) -> dict[int, Token]:
    """Output position → the drafted token that was rejected there, of siblings the one with the
    best rank."""
    rejected: dict[int, Token] = {}
    for token in (token for step in run.steps for token in step.tokens):
        if token.outcome is Outcome.REJECTED:
            other = rejected.setdefault(token.position, token)
            rejected[token.position] = min(other, token, key=lambda each: each.rank)
    return rejected


def relaxed_alone(run: Trace, token: Token, eos: Collection[int]) -> Trace:
    """Return the beginning of a text of strict, up to one of its rejected tokens, which is relaxed
    instead. It ends the text if it is one of ``eos``, or ends a stop string."""
    at, ends = token.position - len(run.given), token.id in eos
    text = run.text[: token.start] + ("" if ends else token.piece)
    stopped = any(stop in text for stop in run.config.prompt.stop)
    kept = (*run.tokens[:at], replace(token, outcome=Outcome.RELAXED))
    return replace(
        run,
        text=text,
        steps=(replace(run.steps[0], tokens=kept),),
        stop_reason=StopReason.EOS
        if ends
        else StopReason.STOP_STRING
        if stopped
        else StopReason.LENGTH,
    )


def starts(run: Trace, positions: Collection[int]) -> dict[int, tuple[int, int]]:
    """Position of a relaxed token → where strict continues with the target's token, and where after
    the relaxed one. If all tokens between two relaxed ones are the target's, the text with the
    target's token at the second is the text after the first."""
    after = {position + 1 for position in positions}
    first, begin = {}, len(run.given)
    for token in run.tokens:
        if token.position in positions:
            first[token.position] = begin if begin in after else token.position
        if token.id != token.own:
            begin = token.position + 1
    return {position: (first[position], position + 1) for position in sorted(first)}


def continued(run: Trace, start: int) -> RunConfig | None:
    """Strict after the tokens of ``run`` before output position ``start``; None where that is the
    end of the run, which then is the continuation itself."""
    ids = (*run.config.prefix, *run.token_ids)
    left = len(run.config.prefix) + run.config.max_new_tokens - start
    if left < 1 or (
        start == len(ids) and run.stop_reason in (StopReason.EOS, StopReason.STOP_STRING)
    ):
        return None
    drafter = run.config.drafter
    if drafter.mode is DraftMode.SAMPLED:  # strict writes the target's text with coupled drafts
        drafter = replace(drafter, mode=DraftMode.COUPLED)
    return replace(
        run.config,
        rule=RuleConfig("strict"),
        drafter=drafter,
        prefix=ids[:start],
        max_new_tokens=left,
    )


def ending(run: Trace, continuation: Trace, position: int) -> Ending | None:
    """Return what a continuation of ``run``, or the run itself, wrote from ``position`` on; None if
    it failed, or if rounding made another text of the tokens before."""
    before, there = (
        (*each.config.prefix, *each.token_ids)[:position] for each in (run, continuation)
    )
    if continuation.status is not Status.COMPLETED or before != there:
        return None
    tokens = {token.position: token for token in (*run.tokens, *continuation.tokens)}
    end = len(continuation.given) + len(continuation.tokens)
    written = [tokens[each] for each in range(position, end)]
    return Ending(
        tuple(token.id for token in written),
        tuple(token.logprob for token in written),
        continuation.stop_reason is not StopReason.LENGTH,
        continuation.text,
    )


def compared(run: Trace, position: int, strict: Ending, relaxed: Ending) -> Counterfactual:
    """``strict``, ``relaxed``: from ``position`` on, of the continuations of ``starts``."""
    token = next(each for each in run.tokens if each.position == position)
    return Counterfactual(
        position=position,
        kind=kind_of_token(run.text[: token.start], token.piece),
        r=token.r,
        gap=token.gap,
        entropy=token.entropy,
        meets_after=meets_after(strict, relaxed),
        strict_tokens=len(strict.ids),
        relaxed_tokens=len(relaxed.ids),
        strict_logprob=statistics.fmean(strict.logprobs),
        relaxed_logprob=statistics.fmean(relaxed.logprobs),
    )


def meets_after(one: Ending, other: Ending) -> int | None:
    """Return after how many tokens two texts are the same up to their ends: the tokens before an
    equal ending, in the longer of the two beginnings. The ending has LEAST tokens, or all but the
    first token of a shorter text. Where the token limit cut a text, the other may have tokens after
    the equal ones. None without such an ending."""
    trims = [(0, 0)]
    trims += [(cut, 0) for cut in range(1, len(one.ids))] if not other.ended else []
    trims += [(0, cut) for cut in range(1, len(other.ids))] if not one.ended else []
    for cuts in sorted(trims, key=sum):
        lengths = len(one.ids) - cuts[0], len(other.ids) - cuts[1]
        equal = _equal_before(one.ids, other.ids, *lengths)
        if equal >= max(1, LEAST if any(cuts) else min(LEAST, *(n - 1 for n in lengths))):
            return max(lengths) - equal
    return None


def _equal_before(one: Sequence[int], other: Sequence[int], end: int, other_end: int) -> int:
    """Return how many tokens before two ends are the same."""
    equal = 0
    while equal < min(end, other_end) and one[end - 1 - equal] == other[other_end - 1 - equal]:
        equal += 1
    return equal


def kind_of_token(before: str, piece: str) -> str:
    """Return the kind of a token after the text ``before``: code within a fence, else number if it
    has a digit, word if it has a letter, else punctuation, which has spaces too."""
    if before.count("```") % 2:
        return "code"
    if any(map(str.isdigit, piece)):
        return "number"
    return "word" if any(map(str.isalpha, piece)) else "punctuation"
