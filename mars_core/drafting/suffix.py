"""Suffix decoding (SuffixDecoding, 2411.04975), on the text of the run alone: what most often
followed the earlier occurrences of the end of the text, as long as it is likely to follow again.

Of every suffix that occurs earlier, longest first, the path of the most frequent continuations is a
candidate. Its i-th token has the score D_i = D_{i−1} · count(child) / (count(parent) + 1/n), which
estimates the probability that the path goes on in this way; n tokens precede it in both places, so
that one occurrence of a long match says more than one of a single token. The path with the largest
ΣD_i is drafted, until D_i falls below ``LEAST``. The paper has no 1/n; it bounds the length of a
path by a multiple of n instead, and builds trees of drafts and of earlier outputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from mars_core.drafting.base import Drafter, DrafterKind, TextLookup

LONGEST = 24  # tokens of a suffix; longer matches count as this long
LEAST = 0.4  # D: a path ends where it is less likely to go on in this way


class SuffixLookup(TextLookup):
    """Updated with every token in time proportional to its earlier occurrences."""

    def __init__(self) -> None:
        self._read = 0
        self._after: dict[int, list[int]] = {}  # positions after each token
        # positions whose preceding tokens end the text as well: how many of them do
        self._matches: dict[int, int] = {}

    def continuation(self, ids: Sequence[int], limit: int) -> Sequence[int]:
        for position in range(self._read, len(ids)):
            after, before = self._after.setdefault(ids[position], []), self._matches
            self._matches = {at: min(before.get(at - 1, 0) + 1, LONGEST) for at in after}
            after.append(position + 1)
        self._read = len(ids)
        lengths = sorted(set(self._matches.values()), reverse=True)
        paths = (self._path(list(ids), length, limit) for length in lengths)
        return max(paths, key=lambda path: path[0], default=(0.0, ()))[1]

    def _path(self, text: list[int], length: int, limit: int) -> tuple[float, Sequence[int]]:
        """ΣD and tokens of the path after the last ``length`` tokens. Of continuations that are
        equally frequent the latest is taken; one that reaches the end of the text goes on with
        its draft."""
        ends = [at for at, count in reversed(self._matches.items()) if count >= length]
        share, score, drafted = 1.0, 0.0, len(text)
        for known in range(length, length + limit):
            token, count = Counter(text[at] for at in ends).most_common(1)[0]
            share *= count / (len(ends) + 1 / known)
            if share < LEAST:
                break
            score += share
            ends = [at + 1 for at in ends if text[at] == token]
            text.append(token)
        return score, text[drafted:]


SUFFIX = DrafterKind(
    name="suffix",
    title="suffix lookup",
    drafts="suffix drafts",
    summary="What most often followed the end of the text where it occurred before, as far as it is likely to follow again.",
    source="SuffixDecoding 2411.04975, on the text of the run alone",
    build=lambda parts: Drafter(parts.config.k, SuffixLookup),
    vllm="suffix",
)
