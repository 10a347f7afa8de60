"""The two suites of the bundled pair: held-out problems, and requests for stories that name a cast;
and the questions that the page begins with."""

from __future__ import annotations

import re

from evaluation.item import Item, Suite
from evaluation.scoring.names import CONTAINS_ALL, FLEXIBLE, STRICT
from mars_core.demo import lexicon
from mars_core.demo.corpus import held_out, held_out_requests

ARITHMETIC, STORIES = "demo_arithmetic", "demo_stories"
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
_OPERATION = re.compile(r"\d ([-+*/]) \d")
_REQUESTS = 300  # sampled; requests without names, and duplicates, are left out
_NAMES = tuple(name for names in lexicon.NAMES.values() for name in names)
_CHILDREN = [pronouns["child"] for pronouns in lexicon.PRONOUNS.values()]
_REQUESTABLE = (*_NAMES, *lexicon.TREASURES, *lexicon.ANIMALS, *lexicon.LOCATIONS, *_CHILDREN)
_WORD = re.compile(
    rf"\b({'|'.join(sorted(map(re.escape, _REQUESTABLE), key=len, reverse=True))})\b"
)


def arithmetic() -> Suite:
    """The held-out word problems; the reference is the number, the template the operations of the
    solution. The pair ends its answers in ``#### N``, as GSM8K does."""
    items = (
        Item(
            str(number),
            (problem.question,),
            (str(problem.answer),),
            "arithmetic",
            template=" ".join(_OPERATION.findall(problem.solution)),
        )
        for number, problem in enumerate(held_out())
    )
    return Suite(ARITHMETIC, tuple(items), ARITHMETIC, "", (STRICT, FLEXIBLE))


def stories() -> Suite:
    """Requests for stories; the references are the names in the request, and all must occur."""
    requests = dict.fromkeys(held_out_requests(_REQUESTS))
    named = [(request, _named(request)) for request in requests]
    items = (
        Item(str(number), (request,), words, "story")
        for number, (request, words) in enumerate(named)
        if words
    )
    return Suite(STORIES, tuple(items), STORIES, "", (CONTAINS_ALL,))


def _named(request: str) -> tuple[str, ...]:
    """Name, thing, animal and location of a request; for a story to be continued only the name, as the
    rest is in its text already."""
    words = dict.fromkeys(_WORD.findall(request))
    return tuple(word for word in words if word in _NAMES or not request.startswith("Continue"))
