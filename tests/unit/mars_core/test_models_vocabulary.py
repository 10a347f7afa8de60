"""Ids that may be drafted are tokens of both models, with one text."""

from __future__ import annotations

import pytest

from mars_core.models.errors import ModelError
from mars_core.models.vocabulary import shared_vocabulary

NAMES = ("big", "small")
TOKENS = {"a": 0, "b": 1, "c": 2}


@pytest.mark.parametrize(
    ("draft", "rows"), [(TOKENS, (3, 3)), (TOKENS, (8, 3)), (TOKENS, (3, 8)), ({**TOKENS, "<extra>": 3}, (8, 8))]
)
def test_what_both_know_is_shared_without_padded_rows_and_tokens_of_the_draft_alone(
    draft: dict[str, int], rows: tuple[int, int]
) -> None:
    assert shared_vocabulary(NAMES, TOKENS, draft, rows) == 3


def test_tokens_that_only_the_target_has_need_a_row_in_the_draft() -> None:
    target = {**TOKENS, "<think>": 3}
    assert shared_vocabulary(NAMES, target, TOKENS, (8, 4)) == 4
    with pytest.raises(ModelError, match=r"big and small .* '<think>' in the first and not a token in the second"):
        shared_vocabulary(NAMES, target, TOKENS, (8, 3))


@pytest.mark.parametrize(
    ("target", "draft", "said"),
    [
        (TOKENS, {"a": 0, "x": 1, "y": 2}, "id 1 is 'b' in the first and 'x' in the second"),
        ({"a": 0, "c": 2}, TOKENS, "id 1 is not a token in the first and 'b' in the second"),
    ],
)
def test_the_first_id_with_another_text_is_named(target: dict[str, int], draft: dict[str, int], said: str) -> None:
    with pytest.raises(ModelError, match=f"big and small .* {said}"):
        shared_vocabulary(NAMES, target, draft, (3, 3))


def test_a_long_or_hostile_token_does_not_flood_the_message() -> None:
    with pytest.raises(ModelError) as caught:
        shared_vocabulary(NAMES, {"a" * 10_000: 0}, {"\n\ud800": 0}, (1, 1))
    assert len(str(caught.value)) < 300 and "\n" not in str(caught.value)
    str(caught.value).encode()
