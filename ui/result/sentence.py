"""The summary of a comparison in words: the first difference of the texts and why, the answers, and
the time: every ratio of times comes from here, from several rounds and with its interval.

Values in, values out: no gradio. A sentence is a tuple of parts, some of which point to a token of
a lane.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from display.format import displayable, faster, number, plural, shorten
from evaluation.scoring.extraction import answers
from evaluation.statistics import Interval, mean_ratio, paired_ratios
from mars_core.telemetry import first_divergence
from mars_core.types import (
    Cause,
    Divergence,
    Outcome,
    Status,
    StopReason,
    Token,
    Trace,
)
from ui.kit.labels import run_names
from ui.kit.values import BREAK, Sentence, SentencePart
from ui.token_view.story import relaxed_story, samples_drafts, word

LONGEST_PIECE = 24  # characters that are named of a token


class SpeedRatio(NamedTuple):
    """``ratio``, of tokens per second: missing where less than two rounds were measured, or both
    runs did the same work."""

    ratio: Interval = Interval()
    rounds: int = 0
    same_work: bool = False

    @property
    def measured(self) -> bool:
        return self.rounds > 1

    @property
    def measurable(self) -> bool:
        """Whether the interval excludes 1."""
        return self.ratio.low > 1 or self.ratio.high < 1

    @property
    def text(self) -> str:
        """``1.30× faster (3 rounds: 1.20× faster to 1.41× faster)``."""
        ends = " to ".join(map(faster, (self.ratio.low, self.ratio.high)))
        value = faster(self.ratio.value) if self.measurable else "undecided"
        return f"{value} ({plural(self.rounds, 'round')}: {ends})"

    def sentence(self) -> str:
        """``Time per token: 1.30× faster (3 rounds: …).``"""
        if self.same_work:
            return "The two did the same work."
        return f"Time per token: {self.text if self.measured else 'not measured'}."


def speed_ratio(
    left: Trace, right: Trace, bases: Sequence[float], speeds: Sequence[float]
) -> SpeedRatio:
    """Return the ratio of ``right`` over ``left``. ``bases``, ``speeds``: tokens per second of the
    runs and their repeats by round, nan where one did not end."""
    if (
        right.config.drafter == left.config.drafter  # another drafter's passes cost another time
        and right.summary.steps == left.summary.steps
        and right.token_ids == left.token_ids
    ):
        return SpeedRatio(same_work=True)
    rounds = paired_ratios(speeds, bases)
    return SpeedRatio(mean_ratio(rounds), len(rounds))


def divergence(left: Trace, right: Trace) -> Divergence | None:
    """Return where the right run leaves the left one; None where the token ids agree or one of the
    runs did not end."""
    if Status.COMPLETED is left.status is right.status:
        return first_divergence(left, right)
    return None


def verdict(traces: Sequence[Trace], paces: Sequence[SpeedRatio] = ()) -> Sentence:
    """Return what came of runs that all ended, by lane: one sentence for each against the leftmost,
    one a line. ``paces``: of each over the leftmost; without them nothing is said of time."""
    names = run_names([trace.config for trace in traces])
    parts: list[str | SentencePart] = []
    for lane in range(1, len(traces)):
        parts += [BREAK] if parts else []
        parts += _against(names, traces, lane)
        parts += [f" {paces[lane].sentence()}"] if paces else []
    parts = parts or [f"{names[0]} wrote {plural(traces[0].summary.new_tokens, 'token')}."]
    for lane, (name, trace) in enumerate(zip(names, traces, strict=True)):
        parts += _loop(name, trace, lane)
    return tuple(parts)


def _loop(name: str, trace: Trace, lane: int) -> Sentence:
    """Say that a text repeats itself, which a draft foresees; nothing where it does not."""
    position, summary = trace.repeats_from, trace.summary
    if position is None:
        return ()
    before = number(summary.tau_before_loop)
    words = f" {name} repeats the same {plural(summary.loop_tokens, 'token')} from "
    rest = f" on: before that it had {before} tokens per target pass, in all {number(summary.tau)}."
    return words, _link(lane, position), rest


def broken_sentence(runs: Sequence[tuple[str, Trace | None]]) -> Sentence:
    """Return the sentence where not every run ended. ``runs``: name and trace by lane, None where a
    run was never begun."""
    traces = [trace for _, trace in runs if trace]
    why = "Stopped. "
    if any(trace.stop_reason is StopReason.DEADLINE for trace in traces):
        why = "The time for one request is up. "
    if any(trace.status is Status.FAILED for trace in traces):
        why = "A run failed. "
    ended = "; ".join(f"{name} {ending(trace)}" for name, trace in runs)
    return SentencePart(why), f"{ended}."


def ending(trace: Trace | None) -> str:
    if trace is None:
        return "was not started"
    amount = plural(trace.summary.new_tokens, "token")
    if trace.status is Status.FAILED:
        return f"failed after {amount}: {displayable(trace.error).rstrip('.')}"
    return f"{'ended with' if trace.status is Status.COMPLETED else 'was stopped after'} {amount}"


def _against(names: Sequence[str], traces: Sequence[Trace], lane: int) -> Sentence:
    """Compare the run in ``lane`` with the leftmost: what is the same whenever the runs are made
    again."""
    left, right, name, base = traces[0], traces[lane], names[lane], names[0]
    difference = divergence(left, right)
    if difference is None:
        mixed = left.config.served != right.config.served
        same = SentencePart("the same text" if mixed else "the same text, token for token")
        return f"{name} and {base} wrote ", same, "."
    position = difference.position
    if difference.cause is Cause.LENGTH:
        lengths = [(len(trace.text), len(trace.output)) for trace in (left, right)]
        ours = lengths[1] > lengths[0]
        longer, shorter = (name, base) if ours else (base, name)
        words = f"{longer} continues where {shorter} ends, at "
        return words, _link(lane if ours else 0, position), "."
    if difference.cause is Cause.CHOSEN:
        return _continued(names, traces, lane, position)
    words = f"{name} first differs from {base} at "
    link = _link(0 if _relaxed_on_the_left(difference, right) else lane, position)
    return words, link, ": ", *_cause(difference, left, right), *answer(left, right)


def _relaxed_on_the_left(difference: Divergence, right: Trace) -> bool:
    relaxed = difference.cause is Cause.RELAXED
    return relaxed and _token(right, difference.position).outcome is not Outcome.RELAXED


def answer(left: Trace, right: Trace) -> Sentence:
    """Return whether both texts give the same answer; nothing where none is found in both, or one
    was cut off before it."""
    cut = StopReason.LENGTH in (left.stop_reason, right.stop_reason)
    pair = None if cut else answers(right.config.prompt.text, left.text, right.text)
    if pair is None:
        return ()
    begin = " Same " if pair.left == pair.right else " Another "
    words: list[str | SentencePart] = [begin, SentencePart(pair.kind)]
    if pair.kind in ("choice", "number"):
        words += [": ", SentencePart(shorten(pair.right, 20), "piece")]
        if pair.left != pair.right:
            words += [" instead of ", SentencePart(shorten(pair.left, 20), "piece")]
    return *words, "."


def _continued(names: Sequence[str], traces: Sequence[Trace], lane: int, position: int) -> Sentence:
    """Say where one of the runs was continued from a chosen token, at the end of its given
    beginning; ``position``: where the two first differ, there or before."""
    by_hand, other = (lane, 0) if len(traces[lane].given) > position else (0, lane)
    at = len(traces[by_hand].given) - 1
    chosen = _piece(traces[by_hand].given[at].piece)
    rest = (
        f"; it differs from {names[other]} from position {position} on." if position < at else "."
    )
    return (
        f"{names[by_hand]} goes on from ",
        chosen,
        ", which was chosen at ",
        _link(by_hand, at),
        rest,
    )


def _link(lane: int, position: int) -> SentencePart:
    return SentencePart(f"position {position}", lane=lane, position=position)


def _token(trace: Trace, position: int) -> Token:
    return trace.tokens[position - len(trace.given)]


def _at(trace: Trace, character: int) -> Token:
    """Return the token with a character of the text, from this on: a server's may be long."""
    token = trace.tokens[bisect_right([each.end for each in trace.tokens], character)]
    return replace(token, piece=trace.text[character : min(token.end, character + LONGEST_PIECE)])


def _cause(difference: Divergence, left: Trace, right: Trace) -> Sentence:
    if difference.cause is Cause.HISTORY:
        return ("their answers in the turns before differ.",)
    if _relaxed_on_the_left(difference, right):
        left, right = right, left
    if left.config.served != right.config.served:
        start = (right if left.config.served else left).output[difference.position].start
        here, theirs = (_at(trace, start) for trace in (right, left))
    else:
        here, theirs = (_token(trace, difference.position) for trace in (right, left))
    if difference.cause is Cause.RELAXED:
        config = right.config
        story = relaxed_story(here, config.rule, sampled=samples_drafts(config))
        return tuple(
            SentencePart(each, "piece") if at % 2 else each for at, each in enumerate(story)
        )
    greedy = right.config.sampling.temperature == 0
    chances = f"p {number(here.displayed_p(greedy=greedy))} against {_other(here, theirs, greedy)}"
    before, between, after = {
        Cause.NUMERIC: (
            "a numeric tie, ",
            " for ",
            f" (gap {number(difference.gap)}): rounding of the logits, not the rule.",
        ),
        Cause.UNKNOWN: ("", " instead of ", "; the server did not report the reason."),
        Cause.TIGHTENED: (
            "it rejected a token that strict keeps and wrote ",
            " instead of ",
            f" ({chances}).",
        ),
    }.get(
        difference.cause,
        ("it corrected a rejection to ", " instead of ", f" ({chances})."),
    )
    return before, _piece(here.piece), between, _piece(theirs.piece), after


def _piece(text: str) -> SentencePart:
    return SentencePart(word(text), "piece")


def _other(here: Token, theirs: Token, greedy: bool) -> str:
    """Return p of the other token at this position, whose distribution both runs share."""
    alternatives_p = {alternative.id: alternative.p for alternative in here.top}
    return number(alternatives_p.get(theirs.id, theirs.displayed_p(greedy=greedy)))
