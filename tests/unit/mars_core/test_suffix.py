"""Suffix decoding: drafts are the most frequent continuations of the end of the text."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest

from mars_core.drafting.suffix import LEAST, LONGEST, SuffixLookup


def drafted(ids: Sequence[int], limit: int) -> list[int]:
    return [*SuffixLookup().continuation(ids, limit)]


def test_a_longer_match_drafts_more_and_never_more_than_the_limit() -> None:
    """1.5 times the tokens of a match that occurred once before."""
    long = [*range(10, 60)]
    lengths = [len(drafted([*long, *long[:match]], 64)) for match in (1, 3, 5, 15)]
    assert lengths == [1, 4, 7, 22]
    text = [*long, *long[:16]]
    assert [len(drafted(text, limit)) for limit in (0, 1, 5)] == [0, 1, 5]


def from_the_definition(ids: list[int], k: int) -> list[int]:
    """Candidates of every suffix, the longest first, by counting in the full text."""
    best, most = [], 0.0
    for length in range(min(LONGEST, len(ids) - 1), 0, -1):
        ends = [at for at in range(length, len(ids)) if ids[at - length : at] == ids[-length:]]
        text, share, score = list(ids), 1.0, 0.0
        while ends and len(text) < len(ids) + k:
            counts = Counter(text[at] for at in ends)
            token = max(reversed([text[at] for at in ends]), key=counts.__getitem__)
            share *= counts[token] / (len(ends) + 1 / (length + len(text) - len(ids)))
            if share < LEAST:
                break
            score += share
            ends = [at + 1 for at in ends if text[at] == token]
            text.append(token)
        if score > most:
            best, most = text[len(ids) :], score
    return best


@pytest.mark.parametrize("alphabet", [1, 2, 3, 8])
def test_read_in_pieces_it_is_the_definition(alphabet: int) -> None:
    source, lookup = random.Random(alphabet), SuffixLookup()
    ids = [source.randrange(alphabet)]
    while len(ids) < 90:
        assert [*lookup.continuation(ids, 7)] == from_the_definition(ids, 7)
        ids += [source.randrange(alphabet) for _ in range(source.randrange(1, 5))]
