"""Free wording: one template stands for many sentences. Standard library only.

``[glad|happy|[so|very] proud]`` offers alternatives (nested ones too); ``{name}`` is a slot. Every group of
alternatives has its own skew, taken from its text, so that some choices are near-ties and others are lopsided:
this is where the margins of the bundled pair come from.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from zlib import crc32

_ARTICLE = re.compile(r"\b([Aa]) ([aeiou])")
_INNERMOST = re.compile(r"\[([^\[\]]*)\]")


def choose(rng: random.Random, options: Sequence[str], key: str) -> str:
    """One of ``options``; the i-th has weight skewⁱ with a skew in 0.45..0.95 that depends on ``key`` alone."""
    skew = 0.45 + 0.5 * (crc32(key.encode()) % 1000) / 999
    return rng.choices(options, weights=[skew**rank for rank in range(len(options))])[0]


def sentence(rng: random.Random, templates: Sequence[str], slots: Mapping[str, object]) -> str:
    """One of the templates: alternatives chosen from the inside out, slots filled, a capital first letter."""
    text = choose(rng, templates, templates[0])
    while match := _INNERMOST.search(text):
        group = match.group(1)
        text = text[: match.start()] + choose(rng, group.split("|"), group) + text[match.end() :]
    text = _ARTICLE.sub(r"\1n \2", text.format(**slots))
    return text[0].upper() + text[1:]
