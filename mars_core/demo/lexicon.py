"""The words of the bundled corpus: who, where and what. Data only."""

from __future__ import annotations

NAMES = {
    "she": (
        "Mia", "Anna", "Lily", "Zoe", "Nora", "Ella", "Ruth", "Iris", "Clara", "Hana", "Maya", "Rosa", "Tara", "Vera",
        "Leila", "Amina", "Sofia", "Greta", "Priya", "Wendy",
    ),
    "he": (
        "Tom", "Ben", "Sam", "Leo", "Max", "Omar", "Finn", "Hugo", "Jack", "Ivan", "Noah", "Oscar", "Ravi", "Paul",
        "Felix", "Simon", "Kenji", "Diego", "Peter", "Walter",
    ),
}  # fmt: skip
PRONOUNS = {
    "she": {"sub": "she", "obj": "her", "pos": "her", "child": "girl"},
    "he": {"sub": "he", "obj": "him", "pos": "his", "child": "boy"},
}

_THINGS = (
    "apple", "pear", "marble", "sticker", "book", "shell", "button", "pencil", "coin", "cookie", "stamp", "card",
    "stone", "flower", "balloon", "egg", "candle", "nut", "plum", "ribbon", "bead", "lemon", "muffin", "seed",
    "toy car",
)  # fmt: skip
COUNTABLE = tuple((thing, f"{thing}s") for thing in _THINGS)  # singular, plural
CONTAINERS = (
    ("box", "boxes"), ("bag", "bags"), ("basket", "baskets"), ("jar", "jars"), ("tray", "trays"), ("bowl", "bowls"),
    ("shelf", "shelves"), ("crate", "crates"),
)  # fmt: skip

ANIMALS = (
    "fox", "rabbit", "owl", "bear", "hedgehog", "mouse", "squirrel", "otter", "turtle", "frog", "cat", "dog", "goat",
    "deer", "badger", "crow", "duck", "beaver",
)  # fmt: skip
TRAITS = ("kind", "curious", "brave", "quiet", "clever", "shy", "cheerful", "stubborn", "gentle", "restless", "patient")
PLACES = (
    "forest", "village", "valley", "harbor", "meadow", "town", "farm", "island", "hill", "river", "lake", "garden",
    "mountain", "orchard", "castle", "market",
)  # fmt: skip
TREASURES = (
    "lantern", "key", "kite", "map", "drum", "mirror", "music box", "compass", "scarf", "bell", "wooden boat", "clock",
    "letter", "feather", "whistle", "blue stone", "bicycle", "puppet", "telescope", "silver ring",
)  # fmt: skip
FOODS = ("soup", "bread", "honey cake", "berry pie", "warm milk", "pancakes", "tea", "roasted nuts", "porridge")
HIDING_PLACES = (
    "under the old bridge", "behind the mill", "inside a hollow tree", "at the bottom of the well", "near the stone wall",
    "in the attic", "beside the pond", "on top of the hill", "below the stairs", "between two rocks", "in the tall grass",
)  # fmt: skip
