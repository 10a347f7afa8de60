"""Rules become strict at their limits."""

from __future__ import annotations

from itertools import product

import pytest

from mars_core.types import Sampling
from tests.unit.mars_core.test_verification import (
    SAMPLINGS,
    TREES,
    column,
    columns,
    drawn_case,
    largest_shift,
    takes,
)

LIMITS: list[tuple[str, dict[str, float], bool]] = [  # of strict, and of greedy decoding
    ("block", {}, False),
    ("lenience", {"lenience": 1}, False),
    ("ears", {"tolerance": 0}, False),
    ("entropy", {"alpha": 0, "limit": 1}, False),
    ("threshold", {"single": 1, "accumulated": 1}, False),
    ("ensemble", {"weight": 1}, False),
    ("mars", {"theta": 1}, False),
    ("mars-gap", {"gap": 0}, False),
    ("random", {"probability": 0}, False),
    ("cactus", {"delta": 0}, False),
    ("fuzzy", {"divergence": 0}, False),
    ("easd", {"entropy": 20}, False),
    ("fly", {"window": 6, "entropy": 0}, False),
    ("mars-algorithm1", {"theta": 1}, True),
    ("topk-delta", {"n": 1}, True),
    ("topk-delta", {"delta": 0}, True),
    ("topk-ratio", {"n": 1}, True),
    ("topk-ratio", {"ratio": 1}, True),
]


@pytest.mark.parametrize(("rule", "values", "cold"), LIMITS, ids=str)
def test_limits_of_the_rules_are_strict_decision_by_decision(
    rule: str, values: dict[str, float], cold: bool
) -> None:
    """Those of rules that emit top-1 are strict at temperature 0."""
    for tree, sampling, seed in product(TREES, SAMPLINGS, range(2)):
        if takes(rule, tree):
            logits, draft, u = drawn_case(tree, seed, shift=8.0)  # all positive, as θ = 1 requires
            for z, rounding in ((logits, 1e-12), (logits.float(), 1e-7)):
                rows = columns(z, draft, rule, sampling, u, values)
                strict = columns(z, draft, "strict", Sampling(0.0) if cold else sampling, u)
                for name in ("keep", "emit"):
                    assert column(rows, name) == column(strict, name)
                assert cold or largest_shift(rows) < rounding
