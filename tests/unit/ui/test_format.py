"""Numbers and text as the reader sees them."""

from __future__ import annotations

import math
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from display import format as written


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


@pytest.mark.parametrize(
    ("one", "more"),
    [("token", "tokens"), ("pass", "passes"), ("study", "studies"), ("day", "days")],
)
def test_nouns_have_a_plural(one: str, more: str) -> None:
    assert (written.plural(1, one), written.plural(2, one)) == (f"1 {one}", f"2 {more}")


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
