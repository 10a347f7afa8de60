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


def test_title_is_text_and_not_markup() -> None:
    text = svg(drawing(curve(title='K < 5 & "more"')))
    assert ElementTree.fromstring(text.strip()).attrib["aria-label"] == 'K < 5 & "more"'
