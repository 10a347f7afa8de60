"""One reader of the numbers that people and programs give."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from evaluation.harness.options import OptionError, read_options
from hosting.settings import read_settings
from mars_core.numbers import number_of, read_numbers
from mars_core.settings.command_line import add_options
from ui.public.limits import PRIVATE_LIMITS, read_limits
from ui.settings.values import read_link

WRONG = ["1e999999999", "nan", "inf", "1_0", "٣", "9" * 50, "x", "5x", "0x10", "1e400"]


@pytest.mark.parametrize(
    ("value", "number"),
    [(" 5 ", 5), ("5.0", 5), (2**63, 2**63), ("1e3", 1000), (0.5, 0.5), ("-.5", -0.5)]
    + [(each, None) for each in (*WRONG, True, None, [], float("nan"), float("inf"), 10**400)],
)
def test_a_number_is_finite_short_and_exact(value: object, number: float | None) -> None:
    assert number_of(value) == number


@pytest.mark.parametrize("text", WRONG)
def test_the_sentence_on_a_number_is_the_same_wherever_it_is_typed(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = argparse.ArgumentParser()
    add_options(parser, {"--limit": {"type": int}})
    with pytest.raises(SystemExit):
        parser.parse_args(["--limit", text])
    said = [capsys.readouterr().err.rpartition("argument --limit: ")[2].strip()]
    said.append(read_link({"seed": text})[1])
    readers: list[Any] = [
        lambda: read_options({"seed": text}),
        lambda: read_settings({"PORT": text}),
        lambda: read_limits(f"seconds={text}", PRIVATE_LIMITS),
        lambda: read_numbers(f"1,{text}", "seed"),
    ]
    for read in readers:
        with pytest.raises((ValueError, OptionError)) as refused:
            read()
        said.append(str(refused.value))
    for sentence in said:
        assert f"is {text!r}; it must be a " in sentence and "number" in sentence, sentence


def test_lists_are_ranges_and_numbers_and_counted_before_they_are_built() -> None:
    assert read_numbers("0.8 : 0.9 : 0.05; 1 2,3", "K") == (0.8, 0.85, 0.9, 1, 2, 3)
    for text in (
        "",
        "0:200:1," * 1000,
        "0:199:1,5",
        "1:0:1",
        "0:1:0",
        "1:2",
        "1:2:3:4",
        ":",
        " " * 10_001,
    ):
        with pytest.raises(ValueError, match=r"K .*\.$"):
            read_numbers(text, "K")
