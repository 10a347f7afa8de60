"""MARS_LIMITS: what it changes, what it may not be, and the sentence that visitors read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ui.public.limits import PRIVATE_LIMITS, PUBLIC_LIMITS, read_limits


def test_what_is_set_replaces_the_limits_of_the_mode() -> None:
    assert read_limits("", PUBLIC_LIMITS) == PUBLIC_LIMITS
    expected = replace(PUBLIC_LIMITS, new_tokens=256, seconds=None)
    assert read_limits(" new_tokens = 256, seconds=off ,", PUBLIC_LIMITS) == expected


@pytest.mark.parametrize("text", ["tokens=5", "new_tokens", "new_tokens=0", "k=-1", "k=²", "k=1.5", "k=10000000000"])
def test_what_cannot_be_a_limit_is_one_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=r"^MARS_LIMITS sets .*; it (can set|must be a whole number from 1) ?.*\.$"):
        read_limits(text, PUBLIC_LIMITS)


def test_the_sentence_names_every_limit_of_its_form_and_none_where_there_is_none() -> None:
    assert PRIVATE_LIMITS.sentence() == PRIVATE_LIMITS.sentence(sweep=True) == ""
    one, sweep = PUBLIC_LIMITS.sentence(), PUBLIC_LIMITS.sentence(sweep=True)
    assert all(part in one for part in ("8,000 characters and 2,048 tokens", "512 new tokens", "K = 16", "4 lanes"))
    assert "80 runs a sweep" in sweep and "lanes" not in sweep and "a sweep" not in one
    assert read_limits("k=4", PRIVATE_LIMITS).sentence() == "On this public page at most: K = 4."
