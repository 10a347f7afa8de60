"""From text to token ids, with a chat template and without, and back: no broken characters on the
way, nothing lost at the end."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from mars_core.text.detokenize import Detokenizer, Pieces
from mars_core.text.prompting import encode, end_of_turn
from mars_core.types import Exchange, PromptConfig
from tests.checkpoints import BOS, EOS, tiny_tokenizer
from tests.unit.mars_core.byte_level import byte_level_tokenizer

HISTORY = (Exchange("one?", "1."), Exchange("two?", "2."))
TEMPLATE = "{% for m in messages %}{{ m.role[0] }}:{{ m.content }};{% endfor %}a:"


def tokenizer(template: str | None = None) -> PreTrainedTokenizerFast:
    made = tiny_tokenizer()
    made.chat_template = template
    return made


PLAIN, CHATTY = tokenizer(), tokenizer(TEMPLATE)


def read(tokenizer: PreTrainedTokenizerFast, prompt: PromptConfig) -> str:
    text = tokenizer.decode(encode(tokenizer, prompt))
    assert isinstance(text, str)
    return text


KIND = PromptConfig("two?", "kind", history=HISTORY[:1])
UNANSWERED = PromptConfig("b", history=(Exchange("a", ""),))


@pytest.mark.parametrize(
    ("tokenizer", "prompt", "text"),
    [
        (CHATTY, PromptConfig("three?", history=HISTORY), "u:one?;a:1.;u:two?;a:2.;u:three?;a:"),
        (CHATTY, KIND, "s:kind;u:one?;a:1.;u:two?;a:"),
        (CHATTY, replace(KIND, chat=False), "kind\n\none?\n\n1.\n\ntwo?"),
        (PLAIN, KIND, "kind\n\none?\n\n1.\n\ntwo?"),
        (CHATTY, UNANSWERED, "u:a;a:;u:b;a:"),
        (PLAIN, UNANSWERED, "a\n\nb"),
    ],
)
def test_earlier_turns_are_messages_of_the_template_and_stand_before_the_text_without_one(
    tokenizer: PreTrainedTokenizerFast, prompt: PromptConfig, text: str
) -> None:
    assert read(tokenizer, prompt) == text


@pytest.mark.parametrize(("thinking", "opening"), [(None, "?"), (True, "yes"), (False, "no")])
def test_thinking_reaches_templates_that_have_the_switch(
    thinking: bool | None, opening: str
) -> None:
    switch = "{% if enable_thinking is not defined %}?{% elif enable_thinking %}yes{% else %}no{% endif %}"
    assert (
        read(tokenizer(TEMPLATE + switch), PromptConfig("b", thinking=thinking))
        == f"u:b;a:{opening}"
    )


def test_tools_are_given_to_a_template_that_has_a_place_for_them_and_else_stated() -> None:
    tools = [{"type": "function", "function": {"name": "now"}}]
    prompt = PromptConfig("b", structure=json.dumps({"tools": tools}))
    place = "{% for tool in tools %}<{{ tool.function.name }}>{% endfor %}"
    assert read(tokenizer(place + TEMPLATE), prompt) == "<now>u:b;a:"
    for template in (TEMPLATE, None):
        text = read(tokenizer(template), prompt)
        assert '{"name": "now"}' in text and "<tool_call>" in text and "b" in text.split("\n\n")[-1]
    for structure in ("[]", '{"tool": []}', '{"tools": {}}', "{"):
        with pytest.raises(ValueError, match="it must be a JSON object of at most"):
            read(tokenizer(TEMPLATE), replace(prompt, structure=structure))


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (TEMPLATE, None),
        ("{% for m in messages %}{{ m.content }}</s>{% endfor %}", EOS),
        ("{% for m in messages %}{{ m.role }}:{{ m.content }}\n<s>{% endfor %}", BOS),
        ("{% for m in messages %}<s>{{ m.content }}.</s>{% endfor %}", None),
        ("{{ raise_exception('never') }}", None),
        ("{{ 1 / 0 }}", None),
        ("{{ range(10 ** 9) }}", None),
        (None, None),
    ],
)
def test_the_end_of_a_turn_is_the_added_token_after_an_answer(
    template: str | None, expected: int | None
) -> None:
    assert end_of_turn(tokenizer(template)) == expected


@pytest.mark.parametrize(
    "template",
    ["{{ raise_exception('no') }}", "{{ 1 / 0 }}", "{{ range(10 ** 9) }}", "{{ 1 + 'a' }}"],
)
def test_a_template_that_fails_refuses_the_prompt(template: str) -> None:
    with pytest.raises(ValueError, match="chat template of this model refuses the prompt: "):
        encode(tokenizer(template), PromptConfig("b"))


def test_hostile_characters_of_a_history_are_made_valid() -> None:
    prompt = PromptConfig("b", history=(Exchange("\ud83d\ude00", "\ud800"),))
    assert encode(PLAIN, prompt) == encode(PLAIN, PromptConfig("😀\n\n\ufffd\n\nb"))


@pytest.fixture(scope="module")
def byte_level() -> PreTrainedTokenizerFast:
    return byte_level_tokenizer()


@pytest.fixture(scope="module")
def sentencepiece_like() -> PreTrainedTokenizerFast:
    words = ["<unk>", "▁Hello", "▁world", "!", "▁"]
    core = Tokenizer(
        models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="<unk>")
    )
    core.decoder = decoders.Metaspace()
    return PreTrainedTokenizerFast(
        tokenizer_object=core, unk_token="<unk>", clean_up_tokenization_spaces=False
    )


@pytest.mark.parametrize(
    "text",
    ["plain words", "naïve café", "日本語", "👩‍👩‍👧 family", "a\u0301", "\ufffd?", "\x00\n\t"],
)
def test_pieces_are_complete_characters_and_make_the_text(
    byte_level: PreTrainedTokenizerFast, text: str
) -> None:
    detokenizer = Detokenizer(byte_level)
    pieces = [detokenizer.add(token) for token in byte_level.encode(text)]
    assert "".join(pieces) + detokenizer.flush() == text
    if "\ufffd" not in text:
        assert not any("\ufffd" in piece for piece in pieces)


@pytest.mark.parametrize("seed", range(20))
def test_the_pieces_of_any_bytes_are_their_text(
    byte_level: PreTrainedTokenizerFast, seed: int
) -> None:
    """Characters after, between and amid invalid bytes, in rows longer than any character."""
    parts = [*"a 日都是👩", "\ufffd"]
    ids = [byte_level.encode(part) for part in parts]
    source, tokens = random.Random(seed), list[int]()
    while len(tokens) < 60:
        chosen = source.choice(ids)
        tokens += (
            chosen
            if source.random() < 0.4
            else [source.choice(chosen)] * source.choice((1, 1, 2, 12))
        )
    detokenizer = Detokenizer(byte_level)
    text = "".join(map(detokenizer.add, tokens)) + detokenizer.flush()
    assert text == byte_level.decode(tokens, clean_up_tokenization_spaces=False)


def test_endless_broken_bytes_are_not_held_back_for_ever(
    byte_level: PreTrainedTokenizerFast,
) -> None:
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
