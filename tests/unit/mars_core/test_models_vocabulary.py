"""Ids that may be drafted are tokens of both models, with one text."""

from __future__ import annotations

import pytest

from mars_core.models.errors import ModelError
from mars_core.models.vocabulary import shared_vocabulary

NAMES = ("big", "small")
TOKENS = {"a": 0, "b": 1, "c": 2}


def test_equal_vocabularies_are_shared_whole() -> None:
    assert shared_vocabulary(NAMES, TOKENS, dict(TOKENS), (3, 3)) == 3


def test_padded_rows_of_either_are_left_out() -> None:
    assert shared_vocabulary(NAMES, TOKENS, TOKENS, (8, 3)) == shared_vocabulary(NAMES, TOKENS, TOKENS, (3, 8)) == 3


def test_tokens_that_only_the_draft_has_are_never_drafted() -> None:
    assert shared_vocabulary(NAMES, TOKENS, {**TOKENS, "<extra>": 3}, (8, 8)) == 3


def test_tokens_that_only_the_target_has_need_a_row_in_the_draft() -> None:
    target = {**TOKENS, "<think>": 3}
    assert shared_vocabulary(NAMES, target, TOKENS, (8, 4)) == 4
    with pytest.raises(
        ModelError, match=r"big and small .* id 3 is '<think>' in the first and not a token in the second"
    ):
        shared_vocabulary(NAMES, target, TOKENS, (8, 3))


def test_the_first_id_with_another_text_is_named() -> None:
    with pytest.raises(ModelError, match=r"big and small .* id 1 is 'b' in the first and 'x' in the second"):
        shared_vocabulary(NAMES, TOKENS, {"a": 0, "x": 1, "y": 2}, (3, 3))


def test_a_draft_token_in_a_hole_of_the_target_is_a_difference() -> None:
    with pytest.raises(ModelError, match=r"id 1 is not a token in the first and 'b' in the second"):
        shared_vocabulary(NAMES, {"a": 0, "c": 2}, TOKENS, (3, 3))


def test_a_long_or_hostile_token_does_not_flood_the_message() -> None:
    with pytest.raises(ModelError) as caught:
        shared_vocabulary(NAMES, {"a" * 10_000: 0}, {"\n\ud800": 0}, (1, 1))
    assert len(str(caught.value)) < 300 and "\n" not in str(caught.value)
    str(caught.value).encode()


def test_without_a_tokenizer_the_sizes_decide() -> None:
    assert shared_vocabulary(NAMES, TOKENS, None, (7, 7)) == 7
    with pytest.raises(ModelError, match="small has no tokenizer and a vocabulary of 8, but big has 7"):
        shared_vocabulary(NAMES, TOKENS, None, (7, 8))
