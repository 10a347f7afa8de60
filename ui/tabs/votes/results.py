"""What the votes say: counts, win rate and Wilson's interval of every pair of rules. Plain values; no gradio.

A pair is unordered: which of its rules was Answer A is of no account. Rules carry the labels of the store, with their parameters.
"""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TextIO

from evaluation.statistics import over, wilson
from storage import Choice, RunStore, Search, Source, StoredVote
from storage.export import cell

PAGE = 400  # comparisons read at once
BASELINES = ("none", "strict")  # a pair begins with one of these, where it has one
COLUMNS = (
    "first_rule", "second_rule", "votes", "first_wins", "second_wins", "ties", "both_bad", "decided",
    "second_win_rate", "wilson95_low", "wilson95_high", "same_text",
)  # fmt: skip

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class PairResult:
    """The votes on two rules. ``same_text``: rounds in which both wrote the same, so that nothing was asked."""

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


@dataclass(frozen=True, slots=True)
class Results:
    """Pairs with the most votes first; votes latest first."""

    pairs: tuple[PairResult, ...] = ()
    votes: tuple[StoredVote, ...] = ()


def results(store: RunStore) -> Results:
    """All votes that are saved. Raises StorageError."""
    votes = store.votes()
    same = same_texts(store, {vote.comparison_id for vote in votes})
    return Results(tally(votes, same), votes)


def tally(votes: Iterable[StoredVote], same: Iterable[Pair]) -> tuple[PairResult, ...]:
    """``same``: the rules of every round whose texts were the same."""
    counts: defaultdict[Pair, Counter[str]] = defaultdict(Counter)
    for vote in votes:
        pair = ordered(vote.left_rule, vote.right_rule)
        counts[pair][_won(vote, pair)] += 1
    for rules in same:
        counts[ordered(*rules)]["same_text"] += 1
    found = (_result(pair, tallied) for pair, tallied in counts.items())
    return tuple(sorted(found, key=lambda pair: (-pair.votes, -pair.same_text, pair.first, pair.second)))


def _result(pair: Pair, counts: Counter[str]) -> PairResult:
    return PairResult(
        *pair, counts["first_wins"], counts["second_wins"], counts["ties"], counts["both_bad"], counts["same_text"]
    )


def _won(vote: StoredVote, pair: Pair) -> str:
    if vote.choice is Choice.TIE:
        return "ties"
    if vote.choice is Choice.BOTH_BAD:
        return "both_bad"
    return "first_wins" if winner(vote) == pair[0] else "second_wins"


def winner(vote: StoredVote) -> str:
    """The label of the rule that won; empty where none did."""
    return {Choice.LEFT: vote.left_rule, Choice.RIGHT: vote.right_rule}.get(vote.choice, "")


def ordered(one: str, other: str) -> Pair:
    """Baselines first, then by name."""

    def place(rule: str) -> tuple[int, str]:
        return BASELINES.index(rule) if rule in BASELINES else len(BASELINES), rule

    first, second = sorted((one, other), key=place)
    return first, second


def same_texts(store: RunStore, voted: set[str]) -> list[Pair]:
    """The rules of every round that ended without a vote because both texts were the same."""
    found: list[Pair] = []
    for ids, rules in _unvoted(store, voted):
        texts = iter(store.records([run for pair in ids for run in pair]))
        found += [pair for pair in rules if next(texts).text == next(texts).text]
    return found


def _unvoted(store: RunStore, voted: set[str]) -> Iterator[tuple[list[Pair], list[Pair]]]:
    """Run ids and rules of the rounds that were written to the end, some hundred at a time."""
    offset = 0
    while True:
        page = store.find(Search(source=Source.VOTE, limit=PAGE, offset=offset)).frame
        ids: list[Pair] = []
        rules: list[Pair] = []
        for row in page.to_dict("records"):
            if row["id"] not in voted and tuple(row["status"]) == ("completed", "completed"):
                ids.append(tuple(row["run_ids"]))
                rules.append(tuple(row["rules"]))
        if ids:
            yield ids, rules
        if len(page) < PAGE:
            return
        offset += PAGE


def write_vote_results_csv(pairs: Iterable[PairResult], stream: TextIO) -> None:
    """One row a pair; nan is an empty cell. ``stream`` was opened with ``encoding="utf-8", newline=""``."""
    rows = csv.writer(stream)
    rows.writerow(COLUMNS)
    for pair in pairs:
        counts = (pair.votes, pair.first_wins, pair.second_wins, pair.ties, pair.both_bad, pair.decided)
        shares = (pair.win_rate, *pair.interval)
        rows.writerow(map(cell, (pair.first, pair.second, *counts, *shares, pair.same_text)))
