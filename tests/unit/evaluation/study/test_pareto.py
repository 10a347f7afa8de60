"""The Pareto front by its definition."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from evaluation.study.points import front

OPTIONS = st.lists(st.tuples(*[st.sampled_from((0.0, 0.25, 0.5, 0.75, 1.0, -1.0, math.nan))] * 2), max_size=12)


def beats(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one != other and one[0] <= other[0] and one[1] >= other[1]


@given(OPTIONS)
def test_the_front_is_what_nothing_beats(options: list[tuple[float, float]]) -> None:
    known = [index for index, option in enumerate(options) if not any(map(math.isnan, option))]
    expected = {i for i in known if not any(beats(options[j], options[i]) for j in known)}
    assert set(front(options)) == expected


@given(OPTIONS)
def test_along_the_front_more_cost_buys_more_gain(options: list[tuple[float, float]]) -> None:
    along = [options[index] for index in front(options)]
    assert along == sorted(along)


def test_nothing_has_no_front() -> None:
    assert front([]) == () and front([(math.nan, 1.0)]) == ()
