"""Short tasks of the kinds of the suite ``instructions``: questions about a text, and instructions that
a program can check. All texts are made of the demo's vocabulary."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace

from evaluation.item import Item, Suite
from evaluation.scoring.names import FOLLOWS
from evaluation.suites.read import read_suite
from training.demo import lexicon

NAME = "instructions"
_FACTS_A_TEXT = 3
_NAMES = tuple(name for names in lexicon.NAMES.values() for name in names)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_COLOURS = ("red", "blue", "green", "yellow", "black", "white", "brown", "purple")
_JOBS = ("baker", "teacher", "doctor", "farmer", "painter", "carpenter", "nurse", "gardener")
_TOPICS = ("a kitchen", "a school", "a garden", "the sea", "a farm", "a big city", "winter")
_STARTS = ("Once a year", "Every morning", "Long ago", "In winter", "At night")
_Template = tuple[str, tuple[str, ...]]  # a prompt, and the instructions that its answer follows

# Sentences of a text, each with questions that it answers.
_FACTS: tuple[tuple[str, tuple[_Template, ...]], ...] = (
    (
        "{name} is a {job} and lives near the {place}.",
        (
            ("What is the job of {name}?", ("includes: {job}",)),
            ("Near what does {name} live?", ("includes: {place}",)),
        ),
    ),
    (
        "On {day}, {name} found a {treasure} {hiding}.",
        (
            ("What did {name} find?", ("includes: {treasure}",)),
            ("On which day did {name} find the {treasure}?", ("includes: {day}",)),
            ("Where did {name} find the {treasure}?", ("includes: {hiding}",)),
        ),
    ),
    (
        "{name} sold {count} {things} to {friend}.",
        (
            ("Who bought the {things}?", ("includes: {friend}",)),
            ("How many {things} did {name} sell?", ("includes: {count}",)),
        ),
    ),
    (
        "{friend} has a {colour} {animal} and eats {food} every day.",
        (
            ("What does {friend} eat?", ("includes: {food}",)),
            ("What colour is the {animal}?", ("includes: {colour}",)),
            ("Who has a {animal}?", ("includes: {friend}",)),
        ),
    ),
    (
        "{friend} goes home at {hour} o'clock.",
        (("When does {friend} go home?", ("includes: {hour}",)),),
    ),
)
_ORDERS: tuple[_Template, ...] = (
    (
        "Write one sentence with the words “{treasure}” and “{place}”.",
        ("includes: {treasure}, {place}", "words: 30"),
    ),
    (
        "Write a sentence about the {place}. Begin with the words “{start}”.",
        ("begins: {start}", "words: 40"),
    ),
    (
        "Write one sentence that begins with “{name}” and contains the word “{treasure}”.",
        ("begins: {name}", "includes: {treasure}", "words: 30"),
    ),
    ("Describe the {animal} in at most 20 words.", ("includes: {animal}", "words: 20")),
    (
        "Write a sentence of at most 20 words about {name} and a {treasure}.",
        ("includes: {name}, {treasure}", "words: 20"),
    ),
    ("Write one question about the {animal}.", ("includes: {animal}", "ends: ?")),
    ("Name exactly 3 things of {topic}, as a list with “-”.", ("points: 3",)),
    ("Repeat this sentence: The {animal} sat {hiding}.", ("is: The {animal} sat {hiding}",)),
    (
        "Which of these words is an animal: {treasure}, {animal}, {place}? Answer with one word.",
        ("includes: {animal}", "excludes: {treasure}, {place}"),
    ),
    (
        "Write a JSON object with the keys “name” and “age” for {name}, who is {count} years old.",
        ("keys: name, age", "includes: {name}, {count}"),
    ),
    (
        "Write a JSON object with the keys “name” and “job” for {name}, who is a {job}.",
        ("keys: name, job", "includes: {name}, {job}"),
    ),
)


def further(count: int, seed: int) -> Suite:
    """Make items that the suite does not have, at most ``count``, as many of each kind, in turn."""
    own = {item.turns for item in read_suite(NAME).items}
    suite = _suite(count, seed)
    return replace(suite, items=tuple(item for item in suite.items if item.turns not in own))


def _suite(count: int, seed: int) -> Suite:
    rng = random.Random(seed)
    items: dict[str, Item] = {}
    while len(items) < count:
        kind = list(_KINDS)[len(items) % len(_KINDS)]
        template, (prompt, instructions) = _KINDS[kind](rng)
        slots = _slots(rng)
        prompt = lexicon.sentence(rng, (prompt,), slots)
        references = tuple(each.format(**slots) for each in instructions)
        item = Item(str(len(items)), (prompt,), references, kind, template=template)
        items.setdefault(prompt, item)
    return Suite(NAME, tuple(items.values()), NAME, "", (FOLLOWS,))


def _reading(rng: random.Random) -> tuple[str, _Template]:
    """Make a question, and the prompt with some of the facts in their order and it about one of
    them."""
    facts = [_FACTS[at] for at in sorted(rng.sample(range(len(_FACTS)), _FACTS_A_TEXT))]
    question, instructions = rng.choice(rng.choice(facts)[1])
    text = " ".join(fact for fact, _ in facts)
    return question, (f"{text}\n\n{question} Answer in one short sentence.", instructions)


def _order(rng: random.Random) -> tuple[str, _Template]:
    order = rng.choice(_ORDERS)
    return order[0], order


def _slots(rng: random.Random) -> Mapping[str, object]:
    name, friend = rng.sample(_NAMES, 2)
    return {
        "name": name,
        "friend": friend,
        "place": rng.choice(lexicon.LOCATIONS),
        "animal": rng.choice(lexicon.ANIMALS),
        "treasure": rng.choice(lexicon.TREASURES),
        "things": rng.choice(lexicon.COUNTABLE)[1],
        "food": rng.choice(lexicon.FOODS),
        "hiding": rng.choice(lexicon.HIDING_LOCATIONS),
        "day": rng.choice(_DAYS),
        "colour": rng.choice(_COLOURS),
        "job": rng.choice(_JOBS),
        "topic": rng.choice(_TOPICS),
        "start": rng.choice(_STARTS),
        "hour": rng.randint(1, 11),
        "count": rng.randint(10, 60),
    }


_KINDS: dict[str, Callable[[random.Random], tuple[str, _Template]]] = {
    "reading": _reading,
    "order": _order,
}
