"""Points from results made by hand, with numbers worked out on paper; the Pareto front by its
definition."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.scoring.names import ANSWER
from evaluation.statistics import mean_ratio, wilson
from evaluation.study.pairs import Paired, pairs_of
from evaluation.study.plan import Models
from evaluation.study.points import front, points
from evaluation.study.result import Relative, relative_of, result_of
from evaluation.study.sweep import Case, Cell, Grid, sweep_plan
from mars_core.types import ModelRef, Trace
from storage import StoredResult
from tests.traces import make_trace

PLAN = sweep_plan(
    Models("bundled", ModelRef("a/b")),
    (Case("a", "1"), Case("b")),
    Grid("mars", "theta", (0.8, 0.9)),
    temperatures=(1.0,),
)
RESULT = Paired(
    comparison="0" * 32,
    runs=("1" * 32, "2" * 32),
    case=0,
    repeat=0,
    temperature=1.0,
    k=5,
    value=0.9,
    strict_tokens_per_s=100.0,
    tokens_per_s=120.0,
    strict_tokens=40,
    tokens=60,
    strict_steps=20,
    steps=20,
    relaxed=6,
    tv_sum=3.0,
    divergence=8,
    cause="relaxed",
    strict_right=True,
    right=False,
)
SAME = replace(
    RESULT,
    case=1,
    tokens_per_s=100.0,
    tokens=40,
    relaxed=0,
    tv_sum=1.0,
    divergence=None,
    cause="",
    strict_right=None,
    right=None,
)


def test_a_point_pools_its_comparisons() -> None:
    empty, point = points(PLAN, [RESULT, SAME])
    assert point.cell == Cell(1.0, 5, 0.9) and point.n == 2
    assert point.speedup == mean_ratio([1.2, 1.0]) and point.speedup.low < 1 < point.speedup.value
    assert (
        point.tau == pytest.approx(100 / 40)
        and point.strict_tau == 2
        and point.tau_ratio == pytest.approx(1.25)
    )
    assert point.differ.value == 0.5 and (point.differ.low, point.differ.high) == wilson(1, 2)
    assert point.divergence == 8
    assert point.relaxed_share == pytest.approx(6 / 100) and point.tv == pytest.approx(4 / 100)
    assert point.length_ratio == pytest.approx(100 / 80)
    assert (
        point.scored == 1
        and point.score.value == 0
        and point.strict_score.value == 1
        and point.score_loss == 1
    )
    assert (point.score.low, point.score.high) == wilson(0, 1)
    assert empty.cell.value == 0.8 and empty.n == 0
    numbers = (
        empty.speedup.value,
        empty.tau,
        empty.tau_ratio,
        empty.differ.value,
        empty.tv,
        empty.score_loss,
    )
    assert all(map(math.isnan, numbers))


def test_the_speed_up_is_the_mean_of_the_pairs_ratios_not_the_ratio_of_means() -> None:
    pairs = [(10.0, 20.0), (1000.0, 1000.0), (100.0, 110.0)]
    results = [replace(RESULT, strict_tokens_per_s=a, tokens_per_s=b) for a, b in pairs]
    assert points(PLAN, results)[1].speedup.value == pytest.approx((2 * 1 * 1.1) ** (1 / 3))
    (_, alone), (_, unmeasured) = (
        points(PLAN, results[:1]),
        points(PLAN, [replace(RESULT, tokens_per_s=math.nan)]),
    )
    assert (
        alone.speedup.value == 2
        and math.isnan(alone.speedup.low)
        and math.isnan(unmeasured.speedup.value)
    )


def stored(
    lane: int, trace: Trace, scores: dict[str, float], relative: Relative | None
) -> StoredResult:
    data = json.loads(json.dumps(result_of([trace], scores).as_dict()))
    beside = relative and relative.as_dict()
    return StoredResult(
        1, lane, (f"run {lane}",), "w", datetime.now(UTC), data, beside, ("comparison",)
    )


def test_a_pair_is_read_off_the_results_of_two_lanes() -> None:
    strict, rule = make_trace(), make_trace(rule="mars")
    right, relative = {ANSWER: 1.0}, relative_of([rule], [strict], None, likeness=False)
    results = [
        stored(0, strict, right, None),
        stored(2, rule, {ANSWER: 0.0}, relative),
        stored(1, rule, {}, None),
    ]
    (pair,) = pairs_of(PLAN, results)
    assert (pair.comparison, pair.runs) == ("comparison", ("run 0", "run 2")) and pair.cell == Cell(
        1.0, 5, 0.9
    )
    assert (pair.case, pair.repeat, pair.seed(PLAN)) == (1, 0, 1)
    differ = [one != other for one, other in zip(strict.token_ids, rule.token_ids, strict=False)]
    assert (pair.divergence, pair.cause) == (differ.index(True), "relaxed")
    assert pair.tokens == len(rule.tokens) and pair.relaxed == rule.summary.relaxed > 0
    assert (pair.strict_right, pair.right) == (True, False)
    assert pair.tokens_per_s == pytest.approx(rule.summary.tokens_per_s)
    same = stored(2, strict, {}, relative_of([strict], [strict], None, likeness=False))
    (pair,) = pairs_of(PLAN, [stored(0, strict, {}, None), same])
    assert (pair.divergence, pair.right, pair.speedup) == (None, None, 1)


OPTIONS = st.lists(
    st.tuples(*[st.sampled_from((0.0, 0.25, 0.5, 0.75, 1.0, -1.0, math.nan))] * 2), max_size=12
)


def beats(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one != other and one[0] <= other[0] and one[1] >= other[1]


@given(OPTIONS)
def test_the_front_is_what_nothing_beats(options: list[tuple[float, float]]) -> None:
    known = [index for index, option in enumerate(options) if not any(map(math.isnan, option))]
    expected = {i for i in known if not any(beats(options[j], options[i]) for j in known)}
    assert set(front(options)) == expected
    along = [options[index] for index in front(options)]
    assert along == sorted(along)  # more cost buys more gain
