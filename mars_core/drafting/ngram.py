"""Prompt lookup: what followed the latest earlier occurrence of the last few tokens."""

from __future__ import annotations

from collections.abc import Sequence

from mars_core.drafting.base import Drafter, DrafterKind, TextLookup

MAX_NGRAM = 3  # longest n-gram that is looked up; shorter ones follow, down to one token


class NgramLookup(TextLookup):
    """Keeps an index of the last position after each n-gram, updated in constant time per token."""

    def __init__(self) -> None:
        self._last: dict[tuple[int, ...], int] = {}
        self._indexed = 0

    def continuation(self, ids: Sequence[int], limit: int) -> Sequence[int]:
        self._index(ids)
        contexts = (tuple(ids[-size:]) for size in range(min(MAX_NGRAM, len(ids)), 0, -1))
        start = next((at for at in map(self._last.get, contexts) if at is not None), len(ids))
        return ids[start : start + limit]

    def _index(self, ids: Sequence[int]) -> None:
        """Indexes for each position in ids the n-grams that end just before it."""
        for at in range(max(1, self._indexed), len(ids)):
            for size in range(1, min(MAX_NGRAM, at) + 1):
                self._last[tuple(ids[at - size : at])] = at
        self._indexed = len(ids)


NGRAM = DrafterKind(
    name="ngram",
    title="n-gram lookup",
    drafts="n-gram drafts",
    summary="What followed the last one to three tokens where they occurred before.",
    source="prompt lookup (Saxena 2023), as in transformers",
    build=lambda parts: Drafter(parts.config.k, NgramLookup),
    vllm="ngram",
)
