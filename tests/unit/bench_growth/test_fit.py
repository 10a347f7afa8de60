"""The exponents and medians of a growth curve, against numbers worked out by hand; its plot has all points, and texts as texts."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest

from bench.common.report import markdown
from bench.growth.curves import Curve, Sample, drawing, exponent, exponents, report, upper_half
from evaluation.report.document.render import svg


def curve(*decode_s: float, prefill: bool = True, title: str = "Growth of n") -> Curve:
    """Points 1, 2, 4 …; one run each of 10 tokens in 5 steps, a prefill of x² ms and a peak of 3x MB."""
    xs = tuple(2**at for at in range(len(decode_s)))
    samples = tuple((Sample(each, x**2 / 1000, 10, 5),) for x, each in zip(xs, decode_s, strict=True))
    return Curve("n", title, "n", xs, samples, tuple((3_000_000 * x,) for x in xs), prefill)


def test_least_squares_by_hand() -> None:
    """log₂ y = 0, 0, 3 at log₂ x = 0, 1, 2: the slope is ((−1)(−1) + 0 + 1·2) / 2 = 3/2."""
    assert exponent([1, 2, 4], [1, 1, 8]) == pytest.approx(1.5)


@pytest.mark.parametrize(("xs", "ys"), [([2], [3]), ([1, 2], [0, 1]), ([1, 2], [-1, 1])])
def test_what_has_no_slope_is_not_a_number(xs: list[float], ys: list[float]) -> None:
    assert math.isnan(exponent(xs, ys))


@pytest.mark.parametrize(("count", "kept"), [(7, [3, 4, 5, 6]), (5, [2, 3, 4]), (4, [2, 3]), (2, [1])])
def test_upper_half_holds_the_middle_point(count: int, kept: list[int]) -> None:
    assert list(upper_half(range(count))) == kept


def test_upper_half_and_whole_are_told_apart() -> None:
    """Flat from 1 to 2, then quadratic from 4 to 8: log₂ y = 0, 0, 2, 4 has the slope (0 + 0 + 1 + 6) / 5 over all."""
    rows = {name: (upper, whole) for name, upper, whole in exponents(curve(0.01, 0.01, 0.04, 0.16))}
    assert rows["ms a token"] == pytest.approx((2, 7 / 5))
    assert rows["ms of prefill"] == pytest.approx((2, 2))
    assert rows["peak memory, MB"] == pytest.approx((1, 1))


def test_report_names_every_point_and_the_plot() -> None:
    text = markdown(report([curve(0.01, 0.01, 0.04, 0.16)], "2026-01-01-growth-cpu"))
    assert "| 8 | 16 (16–16) | 32 (32–32) | 64 (64–64) | 24 (24–24) | 2.00 |" in text
    assert "| exponent of | 4 to 8 | 1 to 8 |" in text and "| ms a token | 2.00 | 1.40 |" in text
    assert "![Growth of n](2026-01-01-growth-cpu-n.svg)" in text and "- random Llamas" in text


@pytest.mark.parametrize("prefill", [True, False])
def test_every_point_of_every_quantity_is_drawn_and_named(prefill: bool) -> None:
    found = drawing(curve(0.01, 0.02, 0.04, prefill=prefill))
    names = ["ms a token", "ms a step", *["ms of prefill"] * prefill, "peak memory, MB"]
    assert [mark.text for mark in found.legend] == names
    assert [mark.text for panel in found.panels for mark in panel.marks] == [name for name in names for _ in range(3)]
    assert sum(len(panel.lines) for panel in found.panels) == len(names)


def test_title_is_text_and_not_markup() -> None:
    text = svg(drawing(curve(0.01, 0.02, title='K < 5 & "more"')))
    assert ElementTree.fromstring(text.strip()).attrib["aria-label"] == 'K < 5 & "more"'
