"""Numbers and text as the reader sees them."""

from __future__ import annotations

import math
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from display import format as written
from evaluation.statistics import over


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (1, "1.00"),
        (4.187, "4.19"),
        (0.012345, "0.0123"),
        (152.4, "152"),
        (1234567, "1,230,000"),
        (-0.5, "−0.500"),
        (9.999, "10.0"),
        (1e-9, "1.00e−09"),
        (math.nan, "–"),
        (math.inf, "∞"),
        (-math.inf, "−∞"),
    ],
)
def test_numbers_have_three_significant_digits(value: float, text: str) -> None:
    assert written.number(value) == text


@given(
    st.characters(
        categories=["L", "N", "P", "S", "Z", "C"], include_characters="\ud800\u202e\x1b\x00"
    )
)
def test_displayable_text_hides_nothing(character: str) -> None:
    displayed = written.displayable(character)
    assert displayed == character or not character.isprintable()
    assert (
        displayed != character
        or character in "\n\t"
        or unicodedata.category(character) not in ("Cc", "Cs")
    )
    assert not set(displayed) & set(
        "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\x1b\x00\r"
    )
    assert written.visible(character).strip() != "" and not written.visible(character).isspace()


def test_units_and_signs() -> None:
    assert written.ratio(1.2345) == "1.23×"
    assert written.share(0.0333) == "3.33 %"
    assert [written.memory(size) for size in (83_100_000, 22.5e9, 12)] == [
        "83.1 MB",
        "22.5 GB",
        "12.0 B",
    ]
    assert written.parameters(8_030_261_248) == "8.03 B" and written.parameters(999) == "999"
    assert [written.plural(n, "token") for n in (1, 1200)] == [
        "1 token",
        "1,200 tokens",
    ] and written.count(-3) == "−3"
    assert math.isnan(over(1, 0)) and math.isnan(over(1, math.nan)) and over(1, 4) == 0.25
    assert (written.visible(" a\n\t"), written.visible("")) == ("␣a↵⇥", "∅")
