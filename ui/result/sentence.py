"""The summary of a comparison in words: target passes, relaxed tokens, the first difference of the
texts, and the time.

Values in, values out: no gradio. A sentence is a tuple of parts, some of which point to a token of
a lane.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from evaluation.format import count, displayable, number, plural, ratio, visible
from evaluation.statistics import mean_ratio, paired_ratios
from mars_core.telemetry import first_divergence
from mars_core.types import (
    Cause,
    Divergence,
    Outcome,
    PrefixToken,
    Status,
    StopReason,
    Token,
    Trace,
)
from ui.kit.labels import run_names
from ui.kit.values import BREAK, Sentence, SentencePart, plain

SAME_SPEED = 0.01  # two speeds closer than this share of each other are called equal


def divergence(left: Trace, right: Trace) -> Divergence | None:
    """Where the right run leaves the left one; None where the token ids agree or one of the runs
    did not end."""
    if Status.COMPLETED is left.status is right.status:
        return first_divergence(left, right)
    return None


def verdict(traces: Sequence[Trace], speeds: Sequence[Sequence[float]] = ()) -> Sentence:
    """What came of runs that all ended, by lane: one sentence for each against the leftmost, one a
    line. ``speeds``: tokens per second of each lane's run and its repeats, by round (nan: did not
    end); none: of the runs alone."""
    speeds = speeds or [[trace.summary.tokens_per_s] for trace in traces]
    names = run_names([trace.config for trace in traces])
    parts: list[SentencePart] = []
    for lane, trace in enumerate(traces[1:], start=1):
        parts += [BREAK] if parts else []
        parts += _against((names[0], names[lane]), traces[0], trace, lane)
        rounds = paired_ratios(speeds[lane], speeds[0])
        parts.append(SentencePart(f" {_time(traces[0], trace, rounds)}"))
    return tuple(parts) or (
        SentencePart(f"{names[0]} wrote {plural(traces[0].summary.new_tokens, 'token')}."),
    )


def broken_sentence(runs: Sequence[tuple[str, Trace | None]]) -> Sentence:
    """The sentence where not every run ended. ``runs``: name and trace by lane, None where a run
    was never begun."""
    absent = [name for name, trace in runs if trace is None]
    not_started = (
        f" {_joined(absent)} {'was' if len(absent) == 1 else 'were'} not started." if absent else ""
    )
    for name, trace in runs:
        if trace is not None and trace.status is Status.FAILED:
            amount = plural(trace.summary.new_tokens, "token")
            ended = [
                other for other, run in runs if run is not None and run.status is Status.COMPLETED
            ]
            others = (
                f" {_joined(ended)} ended and {'is' if len(ended) == 1 else 'are'} kept."
                if ended
                else ""
            )
            return (
                SentencePart(
                    f"{name} failed after {amount}: {displayable(trace.error)}{others}{not_started}"
                ),
            )
    ended_runs = "; ".join(
        f"{name} {_ENDED[trace.status]} {plural(trace.summary.new_tokens, 'token')}"
        for name, trace in runs
        if trace is not None
    )
    rest = f";{not_started}" if not_started else ". Completed text was saved."
    late = any(trace is not None and trace.stop_reason is StopReason.DEADLINE for _, trace in runs)
    return (
        SentencePart("The time for one request is up. " if late else "Stopped. ", "strong"),
        SentencePart(ended_runs + rest),
    )


_ENDED = {Status.COMPLETED: "had ended with", Status.CANCELLED: "was stopped after"}


def _joined(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _against(names: tuple[str, ...], left: Trace, right: Trace, lane: int) -> Sentence:
    """``right``, in ``lane``, against the leftmost: what is the same whenever the runs are made
    again."""
    spoken = (
        *_passes(names, left, right),
        *_relaxed(names, left, right),
        *_divergence_parts(names, left, right),
    )
    return tuple(replace(part, lane=lane) if part.lane == 1 else part for part in spoken)


def _passes(names: tuple[str, ...], left: Trace, right: Trace) -> Sentence:
    """Target passes for how many tokens, which are the same whenever the runs are made again."""
    ours, base = right.summary, left.summary
    taus = f"(τ\N{NO-BREAK SPACE}{number(ours.tau)} against {number(base.tau)})"
    return (
        SentencePart(f"{names[1]} took "),
        SentencePart(f"{count(ours.steps)} target pass{'' if ours.steps == 1 else 'es'}", "strong"),
        SentencePart(
            f" for {plural(ours.new_tokens, 'token')}, {names[0]} {count(base.steps)} for {count(base.new_tokens)} {taus}"
        ),
    )


def _time(left: Trace, right: Trace, rounds: Sequence[float]) -> str:
    """The ratio of the speeds, of each round; no ratio where both did the same work."""
    same_draft = (
        right.config.drafter == left.config.drafter
    )  # another drafter's passes cost another time
    if (
        same_draft
        and right.summary.steps == left.summary.steps
        and right.token_ids == left.token_ids
    ):
        return "Same tokens, same passes: a difference in time is noise."
    if not rounds:
        return "Its time was not measured."
    factor, low, high = mean_ratio(rounds)
    if len(rounds) > 1:
        return _interval(factor, low, high, len(rounds))
    if abs(factor - 1) < SAME_SPEED:
        return "In this one run both were equally fast."
    return f"In this one run it was {ratio(max(factor, 1 / factor))} {'faster' if factor > 1 else 'slower'}."


def _interval(factor: float, low: float, high: float, rounds: int) -> str:
    faster = factor >= 1
    if not faster:
        factor, low, high = 1 / factor, 1 / high, 1 / low
    shown = f"{ratio(factor)} {'faster' if faster else 'slower'}"
    bounds = f"{ratio(low)} to {ratio(high)}, {rounds} interleaved runs each"
    if low > 1:
        return f"It was {shown} ({bounds})."
    return f"No difference in time was measurable: {shown} ({bounds})."


def _relaxed(names: tuple[str, ...], left: Trace, right: Trace) -> Sentence:
    ours, base = right.summary.relaxed, left.summary.relaxed
    if not ours and not base:
        return (SentencePart(", relaxed no token"),)
    first = next((token for token in right.tokens if token.outcome is Outcome.RELAXED), None)
    position = first.position if first else None
    link = SentencePart(plural(ours, "token"), "strong", 1 if first else None, position)
    against = (SentencePart(f" ({names[0]}: {count(base)})"),) if base else ()
    return (SentencePart(", relaxed "), link, *against)


def _divergence_parts(names: tuple[str, ...], left: Trace, right: Trace) -> Sentence:
    difference = divergence(left, right)
    if difference is None:
        return (
            SentencePart(", and both texts are "),
            SentencePart("the same, token for token", "strong"),
            SentencePart("."),
        )
    link = SentencePart(f"position {difference.position}", "strong", 1, difference.position)
    if difference.cause is Cause.LENGTH:
        longer, shorter = (1, 0) if right.summary.new_tokens > left.summary.new_tokens else (0, 1)
        words = f"; {names[longer]} continues where {names[shorter]} ends, at "
        return SentencePart(words), replace(link, lane=longer), SentencePart(".")
    if difference.cause is Cause.CHOSEN:
        return (
            SentencePart(", and differs from "),
            link,
            SentencePart(" on, where "),
            *_chosen(difference.position, left, right),
        )
    here, theirs = _token(right, difference.position), _token(left, difference.position)
    greedy = right.config.sampling.temperature == 0
    if difference.cause is Cause.RELAXED and here.outcome is not Outcome.RELAXED:
        subject, link = SentencePart(f": {names[0]} "), replace(link, lane=0)
        return (
            SentencePart(", and first differs at "),
            link,
            subject,
            *_cause(difference, theirs, here, greedy),
        )
    return (
        SentencePart(", and first differs at "),
        link,
        SentencePart(": "),
        *_cause(difference, here, theirs, greedy),
    )


def _chosen(position: int, left: Trace, right: Trace) -> Sentence:
    by_hand, other = (right, left) if position < len(right.given) else (left, right)
    here, theirs = (_piece(output(trace)[position].piece) for trace in (by_hand, other))
    return here, SentencePart(" was chosen instead of "), theirs, SentencePart(".")


def output(trace: Trace) -> tuple[PrefixToken | Token, ...]:
    """The token at every output position."""
    return (*trace.given, *trace.tokens)


def _token(trace: Trace, position: int) -> Token:
    return trace.tokens[position - len(trace.given)]


def divergence_text(left: Trace, right: Trace) -> str:
    """Why the right run leaves the left one, in plain words; empty where it does not."""
    names = run_names([left.config, right.config])
    return (
        plain(_divergence_parts(names, left, right)).lstrip(",; ").removeprefix("and ")
        if divergence(left, right)
        else ""
    )


def _cause(difference: Divergence, here: Token, theirs: Token, greedy: bool) -> Sentence:
    ours, other = _piece(here.piece), _piece(theirs.piece)
    chances = _chances(here, theirs, greedy)
    if difference.cause is Cause.RELAXED:
        drew = _piece(here.own_piece) if here.own != here.id else other
        return (
            SentencePart("kept "),
            ours,
            SentencePart(" where the target drew "),
            drew,
            SentencePart(f" (r = {number(here.r)}, {chances})."),
        )
    if difference.cause is Cause.NUMERIC:
        why = f" (gap {number(difference.gap)}): rounding of the logits, not the rule."
        return (
            SentencePart("a numeric tie, "),
            ours,
            SentencePart(" for "),
            other,
            SentencePart(why),
        )
    if difference.cause is Cause.UNKNOWN:
        return (
            ours,
            SentencePart(" where the other has "),
            other,
            SentencePart("; the server did not report the reason."),
        )
    tightened = difference.cause is Cause.TIGHTENED
    verb = (
        "rejected a token that strict keeps and wrote "
        if tightened
        else "corrected a rejection to "
    )
    return (
        SentencePart(verb),
        ours,
        SentencePart(" where the other has "),
        other,
        SentencePart(f" ({chances})."),
    )


def _piece(text: str) -> SentencePart:
    """A token as a word: the one space that most words begin with is not shown."""
    return SentencePart(visible(text.removeprefix(" ") or text), "piece")


def _chances(here: Token, theirs: Token, greedy: bool) -> str:
    """p of both tokens at this position, whose distribution both runs share; at temperature 0,
    where p is one-hot, p at temperature 1."""
    alternatives_p = {alternative.id: alternative.p for alternative in here.top}
    if greedy and here.id in alternatives_p and theirs.id in alternatives_p:
        return f"p at temperature 1: {number(alternatives_p[here.id])} against {number(alternatives_p[theirs.id])}"
    return f"p {number(here.p)} against {number(alternatives_p.get(theirs.id, theirs.p))}"
