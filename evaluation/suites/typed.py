"""Suites of prompts that are typed, with their right answers where these are known. A prompt is asked
as it was typed: nothing in it is read as an answer, or as the end of a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, zip_longest

from display.format import plural
from evaluation.item import Item, Suite
from evaluation.scoring.names import ANSWER
from mars_core.text.files import lines_of

TYPED = "prompts"  # name of such a suite
SOURCE = "typed"
# Questions that a small model answers, and their answers: they give ratios an interval, and with them
# SmolLM2-135M is done in less than five minutes on two cores.
QUESTIONS = (
    ("What is the capital of France?", "Paris"),
    ("What is 7 + 8?", "15"),
    ("How many days are in a week?", "7"),
    ("Which planet is the closest to the Sun?", "Mercury"),
    ("What is the opposite of hot?", "cold"),
    ("Who wrote Romeo and Juliet?", "Shakespeare"),
    ("Which ocean is the largest?", "Pacific"),
)


def typed_suite(prompts: Sequence[str], references: Sequence[str] = ()) -> Suite:
    """``references``: the right answers in the order of the prompts, empty where one is not known.
    Raises ValueError with one sentence."""
    if not prompts:
        raise ValueError("There is no prompt; give at least one.")
    if len(references) > len(prompts):
        given, most = plural(len(references), "right answer"), plural(len(prompts), "prompt")
        raise ValueError(f"There are {given} and {most}; give at most one for each prompt.")
    items = []
    for number, (prompt, answer) in enumerate(zip_longest(prompts, references, fillvalue=""), 1):
        if not prompt.strip():
            raise ValueError(f"Prompt {number} is empty.")
        items.append(Item(str(number), (prompt,), (answer.strip(),) if answer.strip() else ()))
    metrics = (ANSWER,) if any(item.references for item in items) else ()
    return Suite(TYPED, tuple(items), SOURCE, metrics=metrics)


def split_prompts(text: str, separator: str = "") -> list[str]:
    """Return one prompt a line; or those between lines that are ``separator``. Empty ones are left
    out."""
    parts, between = lines_of(text), separator.strip()
    if between:
        blocks = groupby(parts, lambda line: line.strip() == between)
        parts = ["\n".join(lines).strip("\n") for separates, lines in blocks if not separates]
    return [part for part in parts if part.strip()]
