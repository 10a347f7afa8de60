"""The bundled pair's text: a seeded stream of stories and worked word problems. Standard library only.

Everything here is made by ``stories`` and ``problems``; nothing is collected. The problems that measure the pair
(``held_out``) never appear in the stream that trains it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from mars_core.demo.problems import Problem, practice, problem
from mars_core.demo.stories import story

SYSTEM_PROMPTS = (
    "You are a helpful assistant.",
    "You tell stories and solve problems.",
    "Solve the problem step by step.",
    "You are a patient teacher.",
)
_HELD_OUT_SEED, _HELD_OUT_COUNT = 20_260_120, 600


class Document(NamedTuple):
    """One training text. ``request`` is empty for plain text that is continued without a chat template."""

    request: str
    answer: str
    system: str = ""


def documents(seed: int, practice_share: float = 0.0) -> Iterator[Document]:
    """An endless stream, the same for the same seed; ``practice_share`` of it are sheets of equations."""
    rng = random.Random(seed)
    withheld = {item.question for item in held_out()}
    while True:
        practises = practice_share > 0 and rng.random() < practice_share
        document = Document("", practice(rng)) if practises else _document(rng)
        if document.request not in withheld:
            yield document


@cache
def held_out() -> tuple[Problem, ...]:
    """Distinct problems that ``documents`` never yields, bare sums left out. Their single equations may occur there."""
    rng = random.Random(_HELD_OUT_SEED)
    found: dict[str, Problem] = {}
    while len(found) < _HELD_OUT_COUNT:
        item = problem(rng)
        if item.question.count(" ") > 6:
            found.setdefault(item.question, item)
    return tuple(found.values())


def held_out_requests(count: int) -> tuple[str, ...]:
    """Story requests from a seed of their own. They are short, and many also occur in ``documents``."""
    rng = random.Random(_HELD_OUT_SEED + 1)
    return tuple(story(rng)[0] for _ in range(count))


def _document(rng: random.Random) -> Document:
    system = rng.choice(SYSTEM_PROMPTS) if rng.random() < 0.15 else ""
    if rng.random() < 0.6:
        item = problem(rng)
        return Document(item.question, item.solution, system)
    request, text = story(rng)
    return Document("", text) if rng.random() < 0.25 else Document(request, text, system)
