"""Vocabulary of the bundled corpus, and templates that expand to many sentences.

``[glad|happy|[so|very] proud]`` offers alternatives (nested ones too); ``{name}`` is a slot. Every
group of alternatives has its skew, taken from its text, so that some choices are near-ties and
others are lopsided: this determines the margins of the bundled pair.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from zlib import crc32

NAMES = {
    "she": (
        "Mia",
        "Anna",
        "Lily",
        "Zoe",
        "Nora",
        "Ella",
        "Ruth",
        "Iris",
        "Clara",
        "Hana",
        "Maya",
        "Rosa",
        "Tara",
        "Vera",
        "Leila",
        "Amina",
        "Sofia",
        "Greta",
        "Priya",
        "Wendy",
    ),
    "he": (
        "Tom",
        "Ben",
        "Sam",
        "Leo",
        "Max",
        "Omar",
        "Finn",
        "Hugo",
        "Jack",
        "Ivan",
        "Noah",
        "Oscar",
        "Ravi",
        "Paul",
        "Felix",
        "Simon",
        "Kenji",
        "Diego",
        "Peter",
        "Walter",
    ),
}
PRONOUNS = {
    "she": {"sub": "she", "obj": "her", "pos": "her", "child": "girl"},
    "he": {"sub": "he", "obj": "him", "pos": "his", "child": "boy"},
}

_THINGS = (
    "apple",
    "pear",
    "marble",
    "sticker",
    "book",
    "shell",
    "button",
    "pencil",
    "coin",
    "cookie",
    "stamp",
    "card",
    "stone",
    "flower",
    "balloon",
    "egg",
    "candle",
    "nut",
    "plum",
    "ribbon",
    "bead",
    "lemon",
    "muffin",
    "seed",
    "toy car",
)
COUNTABLE = tuple((thing, f"{thing}s") for thing in _THINGS)  # singular, plural
CONTAINERS = (
    ("box", "boxes"),
    ("bag", "bags"),
    ("basket", "baskets"),
    ("jar", "jars"),
    ("tray", "trays"),
    ("bowl", "bowls"),
    ("shelf", "shelves"),
    ("crate", "crates"),
)

ANIMALS = (
    "fox",
    "rabbit",
    "owl",
    "bear",
    "hedgehog",
    "mouse",
    "squirrel",
    "otter",
    "turtle",
    "frog",
    "cat",
    "dog",
    "goat",
    "deer",
    "badger",
    "crow",
    "duck",
    "beaver",
)
TRAITS = (
    "kind",
    "curious",
    "brave",
    "quiet",
    "clever",
    "shy",
    "cheerful",
    "stubborn",
    "gentle",
    "restless",
    "patient",
)
LOCATIONS = (
    "forest",
    "village",
    "valley",
    "harbor",
    "meadow",
    "town",
    "farm",
    "island",
    "hill",
    "river",
    "lake",
    "garden",
    "mountain",
    "orchard",
    "castle",
    "market",
)
TREASURES = (
    "lantern",
    "key",
    "kite",
    "map",
    "drum",
    "mirror",
    "music box",
    "compass",
    "scarf",
    "bell",
    "wooden boat",
    "clock",
    "letter",
    "feather",
    "whistle",
    "blue stone",
    "bicycle",
    "puppet",
    "telescope",
    "silver ring",
)
FOODS = (
    "soup",
    "bread",
    "honey cake",
    "berry pie",
    "warm milk",
    "pancakes",
    "tea",
    "roasted nuts",
    "porridge",
)
HIDING_LOCATIONS = (
    "under the old bridge",
    "behind the mill",
    "inside a hollow tree",
    "at the bottom of the well",
    "near the stone wall",
    "in the attic",
    "beside the pond",
    "on top of the hill",
    "below the stairs",
    "between two rocks",
    "in the tall grass",
)
_ARTICLE = re.compile(r"\b([Aa]) ([aeiou])")
_INNERMOST = re.compile(r"\[([^\[\]]*)\]")


def choose(rng: random.Random, options: Sequence[str], key: str) -> str:
    """Return one of ``options``; the i-th has weight skewⁱ with a skew in 0.45..0.95 that depends
    on ``key`` alone."""
    skew = 0.45 + 0.5 * (crc32(key.encode()) % 1000) / 999
    return rng.choices(options, weights=[skew**rank for rank in range(len(options))])[0]


def sentence(rng: random.Random, templates: Sequence[str], slots: Mapping[str, object]) -> str:
    """Fill one of the templates: alternatives chosen from the inside out, slots filled, a capital
    first letter."""
    text = choose(rng, templates, templates[0])
    while match := _INNERMOST.search(text):
        group = match.group(1)
        text = text[: match.start()] + choose(rng, group.split("|"), group) + text[match.end() :]
    text = _ARTICLE.sub(r"\1n \2", text.format(**slots))
    return text[0].upper() + text[1:]
