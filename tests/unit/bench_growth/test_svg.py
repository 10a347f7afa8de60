"""The plots: complete, in place, with logarithmic axes, and nothing but text in their texts."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from bench.growth.curves import Curve, Sample, drawing
from evaluation.report.document.render import svg

SVG = "{http://www.w3.org/2000/svg}"
XS = (128, 512, 2048)


def curve(*, prefill: bool = True, title: str = "Context", seconds: float = 0.001) -> Curve:
    """Each token takes x/10 ms, each prefill 10 times as long as a token."""
    samples = tuple((Sample(x * seconds, x * seconds, 10, 5),) * 2 for x in XS)
    return Curve("context", title, "prompt tokens", XS, samples, tuple((1000 * x,) for x in XS), prefill)


@pytest.mark.parametrize("prefill", [True, False])
def test_every_point_of_every_quantity_is_drawn_and_named(prefill: bool) -> None:
    found = drawing(curve(prefill=prefill))
    names = ["ms a token", "ms a step", *["ms of prefill"] * prefill, "peak memory, MB"]
    assert [mark.text for mark in found.legend] == names
    assert [mark.text for panel in found.panels for mark in panel.marks] == [name for name in names for _ in XS]
    assert sum(len(panel.lines) for panel in found.panels) == len(names)


def test_axes_are_logarithmic() -> None:
    """512 is as far from 128 as from 2048; a power law is a straight line that rises to the right."""
    first, second, third = drawing(curve()).panels[0].marks[: len(XS)]
    assert second.x - first.x == pytest.approx(third.x - second.x) and second.x > first.x
    assert first.y - second.y == pytest.approx(second.y - third.y) and second.y < first.y


@pytest.mark.parametrize("seconds", [0.001, 0.0])
def test_everything_lies_in_the_picture_also_what_has_no_logarithm(seconds: float) -> None:
    found = drawing(curve(seconds=seconds))
    for panel in found.panels:
        assert panel.y.ticks and [text for _, text in panel.x.ticks] == ["128", "512", "2k"]
        assert all(panel.left < mark.x < panel.right and 0 < mark.y < found.height for mark in panel.marks)
        assert all(found.y[0] <= at <= found.y[1] for at, _ in panel.y.ticks)


def test_title_is_text_and_not_markup() -> None:
    text = svg(drawing(curve(title='K < 5 & "more"')))
    assert ElementTree.fromstring(text.strip()).attrib["aria-label"] == 'K < 5 & "more"'
