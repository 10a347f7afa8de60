"""Suites of prompts that are typed: one a line or a block, each with its right answer where that is
known."""

from __future__ import annotations

import re
from collections.abc import Iterable

from evaluation.item import Item, Suite
from evaluation.scoring.names import ANSWER
from mars_core.text.files import lines_of

TYPED = "prompts"  # name of such a suite
SOURCE = "typed"
BLOCK = "---"  # a separate line: prompts of several lines stand between two
ARROW = "=>"  # between a prompt and its answer


def typed_suite(prompts: Iterable[str]) -> Suite:
    """Each is a prompt, or ``prompt => answer``. Raises ValueError with one sentence."""
    items = tuple(_item(number, text) for number, text in enumerate(prompts, start=1))
    if not items:
        raise ValueError("There is no prompt; give at least one, one per line.")
    metrics = (ANSWER,) if any(item.references for item in items) else ()
    return Suite(TYPED, items, SOURCE, metrics=metrics)


def split_prompts(text: str) -> list[str]:
    """One prompt a line; or, where a line is ``---``, one between two such lines. Empty ones are
    left out."""
    blocks = re.split(rf"^\s*{BLOCK}\s*$", text, flags=re.MULTILINE)
    return [part for part in (blocks if len(blocks) > 1 else lines_of(text)) if part.strip()]


def typed(item: Item) -> str:
    """The text of which ``typed_suite`` makes this item."""
    return f" {ARROW} ".join((item.turns[0], *item.references))


def _item(number: int, text: str) -> Item:
    prompt, arrow, answer = (part.strip() for part in text.rpartition(ARROW))
    if not arrow:
        prompt, answer = answer, ""
    if not prompt or (arrow and not answer):
        side = "before" if not prompt else "after"
        what = f"There is nothing {side} {ARROW} in" if arrow else "There is nothing in"
        raise ValueError(f"{what} prompt {number}; write it as prompt, or prompt {ARROW} answer.")
    return Item(str(number), (prompt,), (answer,) * bool(arrow))
