"""Text comes out whole: no broken characters on the way, every character once, nothing lost at the end."""

from __future__ import annotations

import pytest
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from mars_core.text.detokenize import Detokenizer, Pieces
from tests.unit.mars_core.byte_level import byte_level_tokenizer


@pytest.fixture(scope="module")
def byte_level() -> PreTrainedTokenizerFast:
    return byte_level_tokenizer()


@pytest.fixture(scope="module")
def sentencepiece_like() -> PreTrainedTokenizerFast:
    words = ["<unk>", "▁Hello", "▁world", "!", "▁"]
    core = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="<unk>"))
    core.decoder = decoders.Metaspace()
    return PreTrainedTokenizerFast(tokenizer_object=core, unk_token="<unk>", clean_up_tokenization_spaces=False)


@pytest.mark.parametrize(
    "text", ["plain words", "naïve café", "日本語", "👩‍👩‍👧 family", "a\u0301", "\ufffd?", "\x00\n\t"]
)
def test_pieces_are_whole_characters_and_make_the_text(byte_level: PreTrainedTokenizerFast, text: str) -> None:
    detokenizer = Detokenizer(byte_level)
    pieces = [detokenizer.add(token) for token in byte_level.encode(text)]
    assert "".join(pieces) + detokenizer.flush() == text
    if "\ufffd" not in text:
        assert not any("\ufffd" in piece for piece in pieces)


def test_unfinished_character_comes_out_with_the_flush(byte_level: PreTrainedTokenizerFast) -> None:
    detokenizer = Detokenizer(byte_level)
    ids = byte_level.encode("x日")[:-1]
    assert [detokenizer.add(token) for token in ids] == ["x", "", ""]
    assert detokenizer.flush() == "\ufffd"
    assert detokenizer.flush() == ""


def test_endless_broken_bytes_are_not_held_back_for_ever(byte_level: PreTrainedTokenizerFast) -> None:
    detokenizer = Detokenizer(byte_level)
    broken = byte_level.encode("日")[-1]
    assert any(detokenizer.add(broken) for _ in range(20))


def test_special_tokens_are_not_text_but_have_a_name(byte_level: PreTrainedTokenizerFast) -> None:
    end = byte_level.eos_token_id
    assert Detokenizer(byte_level).add(end) == ""
    assert Pieces(byte_level)[end] == "<|end|>"


def test_spaces_between_words_survive(sentencepiece_like: PreTrainedTokenizerFast) -> None:
    detokenizer = Detokenizer(sentencepiece_like)
    assert [detokenizer.add(token) for token in (1, 2, 3)] == ["Hello", " world", "!"]
    assert Pieces(sentencepiece_like)[2] == " world"


def test_padded_row_of_the_embedding_has_a_label(byte_level: PreTrainedTokenizerFast) -> None:
    assert Pieces(byte_level)[5_000] == "<5000>"
