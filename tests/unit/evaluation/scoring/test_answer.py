"""When a text counts as a right answer."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.scoring.answer import final_number, reference_number, score


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("Start with 26. 26 + 8 = 34.\n#### 34", "34"),
        ("So the answer is 34.", "34"),
        ("34", "Adding 8 we get 34.\n#### 34"),
        ("She has $1,234.50 left.", "1234.5"),
        ("#### 1234", "$1,234"),
        ("It is −3.", "-3"),
        ("\uff11\uff12 apples", "12"),
        ("About 90%", "90 %"),
        ("the answer is 12.0", "12"),
        ("It is Paris, of course.", "paris"),
        ("The  New-York Times", "new york"),
        ("首都は東京です", "東京"),
        ("1, 2, 3", "3"),
        ("#### -7\n", "-7"),
    ],
)
def test_right_answers(text: str, reference: str) -> None:
    assert score(text, reference)


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("34 and then 35", "34"),  # only the last number counts
        ("#### 35\n#### 36 is 34 + 2", "36"),  # what follows the last mark ends in another number
        ("34 ####", "34"),  # cut off before the answer
        ("no number", "3"),
        ("", "3"),
        ("134", "34"),
        ("3.4", "34"),
        ("Parisian", "paris"),
        ("", "paris"),
    ],
)
def test_wrong_answers(text: str, reference: str) -> None:
    assert not score(text, reference)


@pytest.mark.parametrize("reference", ["", "  \n"])
def test_an_empty_reference_is_refused(reference: str) -> None:
    with pytest.raises(ValueError, match="reference answer is empty"):
        score("text", reference)


@pytest.mark.parametrize(("reference", "number"), [("42", 42), ("#### 7", 7), ("3 apples", None), ("x2", None)])
def test_a_reference_is_a_number_only_where_it_is_nothing_else(reference: str, number: int | None) -> None:
    assert reference_number(reference) == (None if number is None else Decimal(number))


@given(st.integers(-(10**9), 10**9))
def test_a_number_is_found_however_it_is_grouped(value: int) -> None:
    for text in (f"so {value}.", f"so {value:,} apples", f"9 #### {value}"):
        assert final_number(text) == value
        assert score(text, f"{value:,}")
