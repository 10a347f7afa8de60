"""Prompt length as an axis of a study: each suite at each length, its prompts after as many stories
as fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from evaluation.item import Item
from evaluation.plan.plan import Plan
from mars_core.text.files import read_lines

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

LEAST, MOST = 64, 16_384  # tokens of a prompt
CHARACTERS = 4  # of a token, where a server has the tokenizer
LONGEST = 8  # characters of a token of the stories, on average
STORIES = Path(__file__).with_name("passages.txt")


def with_lengths(
    plan: Plan, lengths: Sequence[int], tokenizer: PreTrainedTokenizerBase | None
) -> Plan:
    """Return the plan with each suite at each length, in tokens of the first prompt as a model reads
    it; without a tokenizer they are estimated. Raises ValueError for a prompt that is longer."""
    stories = [line.strip() for line in read_lines(STORIES)]

    def items(every: Sequence[Item], length: int) -> Iterator[Item]:
        for number, item in enumerate(every):
            first = number % len(stories)
            text = "\n".join(stories[first:] + stories[:first])
            yield _filled(plan, item, length, text, tokenizer)

    at_lengths = [
        replace(
            suite,
            name=f"{suite.name} at {length:,} tokens",
            items=tuple(items(suite.items, length)),
            tokens=length,
        )
        for suite in plan.suites
        for length in lengths
    ]
    return replace(plan, suites=tuple(at_lengths)) if lengths else plan


def _filled(
    plan: Plan, item: Item, length: int, text: str, tokenizer: PreTrainedTokenizerBase | None
) -> Item:
    own = _count(plan, item, tokenizer)
    if own > length:
        raise ValueError(
            f"Item {item.id} has {own:,} tokens by itself; --lengths has {length:,}, which must be at "
            "least as much."
        )
    filled, left = item, length - own
    while left > 0:
        before = _beginning(text, left, tokenizer)
        filled = replace(item, turns=(f"{before}\n\n{item.turns[0]}", *item.turns[1:]))
        over = _count(plan, filled, tokenizer) - length
        if over <= 0:
            return filled
        left -= over
    return item


def _count(plan: Plan, item: Item, tokenizer: PreTrainedTokenizerBase | None) -> int:
    if tokenizer is None:
        return len(item.turns[0]) // CHARACTERS
    from mars_core.text.prompting import encode  # imported here because it loads transformers

    return len(encode(tokenizer, plan.prompt(item)))


def _beginning(text: str, tokens: int, tokenizer: PreTrainedTokenizerBase | None) -> str:
    if tokenizer is None:
        return text[: CHARACTERS * tokens]
    ids = tokenizer(text[: LONGEST * tokens], add_special_tokens=False)["input_ids"][:tokens]
    return str(tokenizer.decode(ids))
