"""What all votes say: counts, win rate and Wilson's interval of every pair of rules, on the page and
as a CSV.

A pair is unordered: which of its rules was Answer A is of no account. Rules carry the labels of the
store, with their parameters.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from display.format import plural
from evaluation.statistics import over, wilson
from storage import Choice, StorageError, StoredVote, VoteCount
from storage.export import csv_text
from ui.jobs.services import Services
from ui.kit.panel import render
from ui.kit.responses import attachment

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
    was requested. The win rate is that of the second against the first among decided votes, with
    Wilson's 95 % interval; nan without any."""

    first_rule: str
    second_rule: str
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
    def second_win_rate(self) -> float:
        return over(self.second_wins, self.decided)

    @property
    def wilson95_low(self) -> float:
        return wilson(self.second_wins, self.decided)[0]

    @property
    def wilson95_high(self) -> float:
        return wilson(self.second_wins, self.decided)[1]


def tally(counts: Iterable[VoteCount]) -> tuple[PairResult, ...]:
    """Count the votes of every pair of rules, those with the most first."""
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
    return tuple(sorted(pairs, key=lambda pair: (-pair.votes, -pair.same_text, *pair[:2])))


def ordered(one: str, other: str) -> RulePair:
    """Baselines first, then by name."""
    order = {rule: index for index, rule in enumerate(BASELINES)}
    first, second = sorted((one, other), key=lambda rule: (order.get(rule, len(order)), rule))
    return first, second


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
    """Return heads, and one row a pair; nan is an empty cell."""
    pairs = tally(services.for_visitor(request).store.vote_counts())
    rows = [[getattr(pair, name) for name in COLUMNS] for pair in pairs]
    return attachment("vote_results.csv", csv_text([COLUMNS, *rows]))
