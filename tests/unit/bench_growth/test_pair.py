"""The pairs of the growth measurements: they write as much as asked, and their drafts are right often and not always."""

from __future__ import annotations

import pytest

from bench.growth.curves import SWEEPS, Point, decode, pair_of
from mars_core.models import ModelPool, Pair
from mars_core.types import DrafterConfig, TreeShape

VOCABULARY, TOKENS = 300, 24


@pytest.fixture(scope="module")
def pair() -> Pair:
    return pair_of(VOCABULARY, ModelPool(device="cpu", dtype="float32"))


@pytest.mark.parametrize(
    "drafter", [DrafterConfig("model", k=5), DrafterConfig("eagle3", tree=TreeShape(24, 7, 4))], ids=["chain", "tree"]
)
def test_drafts_are_accepted_often_and_not_always(pair: Pair, drafter: DrafterConfig) -> None:
    found = [decode(pair, Point(VOCABULARY, 20, drafter), TOKENS, seed) for seed in range(3)]
    assert [(each.prompt_tokens, each.new_tokens) for each in found] == [(20, TOKENS)] * 3
    assert all(each.tau > 1.3 for each in found)
    assert sum(each.rejected for each in found) > 0


def test_every_point_fits_into_the_context(pair: Pair) -> None:
    longest = max(sweep.point(x).prompt for sweep in SWEEPS.values() for x in sweep.xs)
    assert longest == 8192 and longest + 64 <= pair.context
