"""The goals of ``make bench`` are judged by its samples, and its exit status says whether texts are
equal that must be."""

from __future__ import annotations

import pytest

from bench.__main__ import GENERATE, goals, unequal
from bench.common.measure import TimedSample, speed_table

STRICT, TREE = "strict, n-grams", "strict, EAGLE-3 tree"
SECONDS = {GENERATE: 4.0, "none": 1.6, STRICT: 0.8, TREE: 0.9, "llama.cpp": 1.2}


def samples(odd: str = "") -> dict[str, list[TimedSample]]:
    """Two prompts, the second at half the speed; the method ``odd`` writes another text."""
    return {
        name: [
            TimedSample(
                prompt, 0, seconds * (prompt + 1), 12, 6 * (name == STRICT), str(name == odd)
            )
            for prompt in (0, 1)
        ]
        for name, seconds in SECONDS.items()
    }


def test_ratios_and_goals() -> None:
    reached = {each.name: (each.value, each.reached) for each in goals(samples())}
    assert reached == {
        f"none / {GENERATE}": (2.5, True),
        "none / llama.cpp": (0.75, False),
        f"{STRICT} / llama.cpp": (1.5, True),
        f"{STRICT} / none": (2.0, True),
    }
    rows = speed_table(samples(STRICT), GENERATE, "").rows
    assert rows[2] == (STRICT, 11.25, "5 (5–5)×", 2, "0 of 2")


@pytest.mark.parametrize(
    ("odd", "trees", "fails"),
    [("", True, False), (STRICT, False, True), ("llama.cpp", True, False), (TREE, False, False)],
)
def test_lossless_texts_must_be_equal_those_of_trees_where_they_are_exact(
    odd: str, trees: bool, fails: bool
) -> None:
    assert unequal(samples(odd), trees=trees) is fails
