"""What a round of the blind vote shows: until a vote is cast the two texts and nothing else (no
rule, no number, no id of a run), then the token views of both runs. And what all votes say: counts,
win rate and Wilson's interval of every pair of rules, on the page and as a CSV.

A pair is unordered: which of its rules was Answer A is of no account. Rules carry the labels of the
store, with their parameters.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from display.format import displayable, plural
from evaluation.statistics import over, wilson
from mars_core.types import Trace
from storage import Choice, StorageError, StoredVote, VoteCount
from storage.export import csv_text
from ui.jobs.services import Services
from ui.kit.components import Strip
from ui.kit.labels import lane_label, run_names
from ui.kit.panel import render
from ui.kit.responses import attachment
from ui.kit.values import SentencePart
from ui.result.result import headlines
from ui.result.sentence import verdict
from ui.result.view import pair_views
from ui.token_view.view import LaneView

NOTHING = "(This answer is empty.)"
_HINTS = {
    "empty": "An answer appears here once both are written.",
    "writing": "Being written. Both answers appear at once.",
}
_CHOICES = {
    Choice.LEFT: "A is better",
    Choice.RIGHT: "B is better",
    Choice.TIE: "Tie",
    Choice.BOTH_BAD: "Both bad",
}
_SIDES = {Choice.LEFT: 0, Choice.RIGHT: 1}


@dataclass(frozen=True, slots=True)
class Round:
    """Two runs that ended, and which of them is Answer A. Never sent to a browser. ``traces`` by
    lane."""

    comparison: str
    traces: tuple[Trace, Trace]
    left_lane: int  # 0 or 1: the lane that is Answer A

    @property
    def right_lane(self) -> int:
        return 1 - self.left_lane

    @property
    def sides(self) -> tuple[Trace, Trace]:
        """Answer A and Answer B."""
        return self.traces[self.left_lane], self.traces[self.right_lane]

    @property
    def same_text(self) -> bool:
        return self.traces[0].text == self.traces[1].text


@dataclass(frozen=True, slots=True)
class RoundView:
    """``state``: empty, writing, asking or revealed. ``texts``: of both answers while they are
    the question. After the vote: ``comparison``, the id for History, and ``lanes``, the runs of
    Answer A and Answer B."""

    state: str = "empty"
    texts: tuple[str, ...] = ()
    comparison: str = ""
    lanes: tuple[LaneView, ...] = ()

    def html(self) -> str:
        hint = _HINTS.get(self.state, "")
        return render("tabs/votes/round.html.jinja", round=self, hint=hint, choices=_CHOICES)


def question_view(round_: Round) -> RoundView:
    """Both texts, side by side, and the question."""
    return RoundView("asking", tuple(displayable(trace.text) or NOTHING for trace in round_.sides))


def revealed(round_: Round, choice: Choice | None) -> RoundView:
    """Both runs with their rules, tokens and numbers; ``choice`` is None where the texts were the
    same."""
    chosen = _SIDES.get(choice) if choice else None
    views = pair_views(round_.traces, round_.comparison)
    lanes = tuple(
        replace(
            views[lane],
            title=f"Answer {'AB'[side]}: {views[lane].title}{', your choice' if side == chosen else ''}",
        )
        for side, lane in enumerate((round_.left_lane, round_.right_lane))
    )
    return RoundView("revealed", comparison=round_.comparison, lanes=lanes)


def reveal_strip(round_: Round, choice: Choice) -> Strip:
    """Return the vote in words, then how the two runs compare."""
    words = {Choice.TIE: "You called it a tie.", Choice.BOTH_BAD: "You found both bad."}.get(choice)
    words = words or f"You preferred {lane_label(round_.sides[_SIDES[choice]].config)}."
    return _compared(round_, words)


def same_strip(round_: Round) -> Strip:
    """Return the strip where there is nothing to vote on; the comparison says that texts of the same tokens
    are the same."""
    ids = [trace.token_ids for trace in round_.traces]
    if ids[0] == ids[1]:
        return _compared(round_, "Nothing to vote on.")
    reason = ": both rules wrote the same text with different tokens."
    return Strip((SentencePart("Nothing to vote on"), reason), "done")


def _compared(round_: Round, words: str) -> Strip:
    """Words, then the sentence and the numbers of Compare, which have nothing to point to here."""
    traces = round_.traces
    sentence = [
        part if isinstance(part, str) else replace(part, lane=None) for part in verdict(traces)
    ]
    numbers = headlines(run_names([trace.config for trace in traces]), dict(enumerate(traces)))
    return Strip(
        (SentencePart(words), " ", *sentence),
        "done",
        numbers=tuple(each._replace(relaxed_at=None) for each in numbers),
    )


RECENT = 20  # votes in the list
BASELINES = ("none", "strict")  # a pair begins with one of these, where it has one
NONE_YET = "No votes yet. Generate two answers above, read both, and vote for the better one."
COLUMNS = (
    *("first_rule", "second_rule", "votes", "first_wins", "second_wins", "ties", "both_bad"),
    *("decided", "second_win_rate", "wilson95_low", "wilson95_high", "same_text"),
)
RulePair = tuple[str, str]


class PairResult(NamedTuple):
    """The votes on two rules. ``same_text``: rounds in which both wrote the same, so that nothing
    was requested."""

    first: str
    second: str
    first_wins: int = 0
    second_wins: int = 0
    ties: int = 0
    both_bad: int = 0
    same_text: int = 0

    @property
    def votes(self) -> int:
        return self.decided + self.ties + self.both_bad

    @property
    def decided(self) -> int:
        return self.first_wins + self.second_wins

    @property
    def win_rate(self) -> float:
        """Of the second against the first, among decided votes; nan without any."""
        return over(self.second_wins, self.decided)

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the win rate; nan without a decided vote."""
        return wilson(self.second_wins, self.decided)


def tally(counts: Iterable[VoteCount]) -> tuple[PairResult, ...]:
    """Pairs, those with the most votes first."""
    totals: defaultdict[RulePair, Counter[str]] = defaultdict(Counter)
    names = {Choice.TIE: "ties", Choice.BOTH_BAD: "both_bad", None: "same_text"}
    for each in counts:
        pair = ordered(each.left_rule, each.right_rule)
        won = each.left_rule if each.choice is Choice.LEFT else each.right_rule
        totals[pair][names.get(each.choice, "first_wins" if won == pair[0] else "second_wins")] += (
            each.count
        )
    pairs = [
        PairResult(*pair, *(counted[name] for name in PairResult._fields[2:]))
        for pair, counted in totals.items()
    ]
    return tuple(
        sorted(pairs, key=lambda pair: (-pair.votes, -pair.same_text, pair.first, pair.second))
    )


def ordered(one: str, other: str) -> RulePair:
    """Baselines first, then by name."""
    order = {rule: index for index, rule in enumerate(BASELINES)}
    first, second = sorted((one, other), key=lambda rule: (order.get(rule, len(order)), rule))
    return first, second


def results_table(pairs: Iterable[PairResult]) -> Iterator[Sequence[Any]]:
    """Heads, and one row a pair; nan is an empty cell."""
    yield COLUMNS
    for each in pairs:
        counts = each.votes, each.first_wins, each.second_wins, each.ties, each.both_bad
        rate = each.decided, each.win_rate, *each.interval
        yield each.first, each.second, *counts, *rate, each.same_text


def tally_html(
    pairs: Iterable[PairResult] = (), votes: tuple[StoredVote, ...] = (), message: str = NONE_YET
) -> str:
    """Return the value of the component. ``votes``: the latest; ``message`` is displayed where
    there is nothing."""
    pairs = tuple(pairs)
    total = sum(pair.votes for pair in pairs)
    return render(
        "tabs/votes/tally.html.jinja",
        pairs=pairs,
        votes=votes,
        head=f"The last {len(votes)} of {plural(total, 'vote')}"
        if total > len(votes)
        else "All votes",
        message=message,
    )


def tally_now(order: Services) -> str:
    """Return the results as they are; what went wrong where they cannot be read."""
    try:
        return tally_html(tally(order.store.vote_counts()), order.store.votes(limit=RECENT))
    except StorageError as error:
        return tally_html(message=order.sentence(error))


def results_file(services: Services, request: Request) -> Response:
    pairs = tally(services.for_visitor(request).store.vote_counts())
    return attachment("vote_results.csv", csv_text(results_table(pairs)))
