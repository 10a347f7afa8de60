"""The plots: well-formed, complete, in place."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from bench.growth.chart import svg
from bench.growth.curves import Curve, Sample

SVG = "{http://www.w3.org/2000/svg}"
XS = (128, 512, 2048)


def curve(*, prefill: bool = True, title: str = "Context") -> Curve:
    """Each token takes x/10 ms, each prefill 10 times as long as a token."""
    samples = tuple((Sample(x / 1000, x / 1000, 10, 5), Sample(x / 1000, x / 1000, 10, 5)) for x in XS)
    return Curve("context", title, "prompt tokens", XS, samples, tuple((1000 * x,) for x in XS), prefill)


def parts(text: str, tag: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(text).iter(SVG + tag))


@pytest.mark.parametrize(("prefill", "drawn"), [(True, 4), (False, 3)])
def test_every_point_of_every_quantity_is_drawn(prefill: bool, drawn: int) -> None:
    text = svg(curve(prefill=prefill))
    assert len(parts(text, "circle")) == drawn * len(XS)
    assert len(parts(text, "polyline")) == drawn


def test_axes_are_logarithmic() -> None:
    """512 is as far from 128 as from 2048; a power law is a straight line that rises to the right."""
    dots = [(float(dot.attrib["cx"]), float(dot.attrib["cy"])) for dot in parts(svg(curve()), "circle")[: len(XS)]]
    (x0, y0), (x1, y1), (x2, y2) = dots
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2) and x1 > x0
    assert y0 - y1 == pytest.approx(y1 - y2, abs=0.2) and y1 < y0


def test_everything_lies_in_the_picture() -> None:
    text = svg(curve())
    _, _, width, height = map(float, ElementTree.fromstring(text).attrib["viewBox"].split())
    places = [(float(dot.attrib["cx"]), float(dot.attrib["cy"])) for dot in parts(text, "circle")]
    places += [(float(word.attrib["x"]), float(word.attrib["y"])) for word in parts(text, "text")]
    assert all(0 < x < width and 0 < y < height for x, y in places)


def test_axes_and_quantities_are_named() -> None:
    words = {word.text for word in parts(svg(curve()), "text")}
    assert {"128", "512", "2k", "prompt tokens", "ms a token", "ms a step", "ms of prefill", "peak memory, MB"} <= words


def test_title_is_text_and_not_markup() -> None:
    text = svg(curve(title='K < 5 & "more"'))
    assert ElementTree.fromstring(text).attrib["aria-label"] == 'K < 5 & "more"'
