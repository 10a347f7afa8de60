"""Models as others write them: their tokens, templates, vocabularies and configurations have the
right outcome."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from tokenizers import AddedToken, processors
from transformers import AutoModelForCausalLM

from mars_core.models import ModelError, Pair
from mars_core.session import Session
from mars_core.telemetry import beyond_head
from mars_core.text.prompting import encode, end_of_turn
from mars_core.types import (
    DrafterConfig,
    Processors,
    PromptConfig,
    Sampling,
    StopReason,
    TreeShape,
)
from tests.checkpoints import (
    BOS,
    CHARACTERS,
    SPECIAL,
    WINDOW,
    tiny_checkpoint,
    tiny_model,
    tiny_tokenizer,
)
from tests.eagle_heads import random_head, save_head, tiny_config
from tests.folders import load
from tests.gguf_files import TOKENS, write_gguf
from tests.live_pairs import (
    config_for,
    decoded,
    disturbed,
    generated,
    headed,
    pair_of,
    searched,
    traced,
)
from tests.unit.mars_core.byte_level import byte_level_tokenizer

NONE, CHAIN = DrafterConfig("none"), DrafterConfig("model", k=4)
TREE = DrafterConfig("eagle3", tree=TreeShape(20, 4, 3))


def test_a_target_with_added_tokens_is_drafted_for_with_the_shared_ones(tmp_path: Path) -> None:
    """Three rows more than the draft model has; its text may have them, drafts never do."""
    draft = tiny_checkpoint("llama", tmp_path / "draft")
    tokens = (*SPECIAL, *CHARACTERS, "<x1>", "<x2>", "<x3>")
    target = tiny_checkpoint("llama", tmp_path / "target", vocab_size=len(tokens))
    tiny_tokenizer(target, vocabulary=tokens)
    pair = load(target, draft)
    assert pair.vocabulary == len(tokens) - 3
    sampling = Sampling(1.0, processors=Processors(logit_bias=((f"[{len(tokens) - 2}]", 12.0),)))
    alone, strict = (traced(pair, each, sampling) for each in (NONE, CHAIN))
    assert strict.token_ids == alone.token_ids and len(tokens) - 2 in alone.token_ids


def test_drafts_beyond_the_context_of_a_head_are_noted(tmp_path: Path) -> None:
    target = tiny_checkpoint("llama", tmp_path / "target", num_hidden_layers=8)
    model = AutoModelForCausalLM.from_pretrained(target)
    config = tiny_config(model.config, max_position_embeddings=64)
    pair = load(target, head=save_head(random_head(config, model), tmp_path / "head"))
    drafter = DrafterConfig("eagle3", k=3)
    short, long = (traced(pair, drafter, prompt="once " * n, new=12) for n in (4, 20))
    assert beyond_head(short) == ""
    assert "trained for 64 tokens, and this text has 112" in beyond_head(long)
    alone = traced(pair, NONE, prompt="once " * 20, new=12)
    assert alone.token_ids == long.token_ids and beyond_head(alone) == ""


def test_a_tree_that_crosses_a_sliding_window_is_generate() -> None:
    target = tiny_model("mistral", max_position_embeddings=256)
    pair = searched(headed(pair_of(target, None, tiny_tokenizer(), frozenset())))
    for length in (WINDOW - 3, WINDOW, 5 * WINDOW):
        trace = traced(pair, TREE, prompt="a story about it " * 3, new=24)
        assert trace.token_ids == generated(pair, trace.prompt_ids, 24), length
    assert any(len(step.tokens) > 1 for step in trace.steps)


def test_an_end_of_turn_that_is_an_added_token_and_not_special_ends_the_text(
    tmp_path: Path,
) -> None:
    folder = tiny_checkpoint("llama", tmp_path, vocab_size=len(SPECIAL) + len(CHARACTERS) + 1)
    tokenizer = tiny_tokenizer()
    tokenizer.add_tokens([AddedToken("<end>", special=False)])
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }}<end>\n{% endfor %}"
    tokenizer.save_pretrained(folder)
    pair, end = load(folder), len(tokenizer) - 1
    assert end_of_turn(pair.tokenizer) == end and end in pair.eos_ids
    sampling = Sampling(1.0, processors=Processors(logit_bias=(("<end>", 6.0),)))
    trace = traced(pair, DrafterConfig("ngram", k=3), sampling, prompt=PromptConfig("hi"), new=80)
    assert trace.stop_reason is StopReason.EOS and trace.token_ids[-1] == end


def test_what_template_and_tokenizer_both_put_first_stands_once() -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", BOS)]
    )
    tokenizer.chat_template = "<s>{% for m in messages %}{{ m.content }}{% endfor %}"
    for chat in (True, False):
        for text in ("hi", "<s>hi")[: 2 - chat]:
            assert encode(tokenizer, PromptConfig(text, chat=chat)).count(BOS) == 1


@pytest.fixture(scope="module")
def of_bytes() -> Pair:
    target = tiny_model("llama", vocab_size=257, max_position_embeddings=256)
    tokenizer = byte_level_tokenizer()
    return searched(headed(pair_of(target, disturbed(target, 0.05), tokenizer, frozenset())))


@pytest.mark.parametrize("drafter", [CHAIN, TREE], ids=["chain", "tree"])
def test_a_character_of_two_tokens_is_a_stop_string(of_bytes: Pair, drafter: DrafterConfig) -> None:
    """Alone and in a batch; the text ends with the token that completes it."""
    first, second = of_bytes.tokenizer("é")["input_ids"]
    likely = tuple((f"[{each}]", 12.0) for each in (first, second))
    sampling = Sampling(1.0, processors=Processors(logit_bias=likely))
    prompt = PromptConfig("once", stop=("é",))
    configs = [
        config_for(of_bytes, drafter, sampling, prompt=prompt, new=60, seed=seed)
        for seed in range(3)
    ]
    free = [
        decoded(of_bytes, replace(config, prompt=PromptConfig("once"))).text for config in configs
    ]
    alone = [decoded(of_bytes, config) for config in configs]
    together = {number: run.trace() for number, run in Session(of_bytes).together(configs, 3)}
    for number, text in enumerate(free):
        for trace in (alone[number], together[number]):
            assert trace.text == text[: text.index("é") + 1]
            assert (trace.stop_reason, trace.token_ids[-1]) == (StopReason.STOP_STRING, second)


def test_a_gguf_file_and_a_folder_of_one_model_read_a_text_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    text = "Café déjà vu — 123 😊"
    pair = load(write_gguf(tmp_path / "tiny.gguf"))
    ids = encode(pair.tokenizer, PromptConfig(text))
    spelt = byte_level_tokenizer()
    wanted = [TOKENS.index(token) for token in spelt.tokenize(text)]
    assert [each for each in ids if each > 2] == wanted
    pair.tokenizer.save_pretrained(tmp_path / "folder")
    pair.target.config.save_pretrained(tmp_path / "folder")
    again = type(pair.tokenizer).from_pretrained(tmp_path / "folder")
    assert encode(again, PromptConfig(text)) == ids
    assert pair.tokenizer.decode(ids, skip_special_tokens=True) == text


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("model.safetensors", "has no weights as safetensors"),
        ("config.json", "has no config.json"),
        ("tokenizer.json", "has no tokenizer"),
    ],
)
def test_a_pipe_in_a_folder_is_no_file_and_nobody_waits_for_it(
    name: str, sentence: str, tmp_path: Path
) -> None:
    folder = tiny_checkpoint("llama", tmp_path)
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(load, folder)
        try:
            with pytest.raises(ModelError, match=sentence):
                waiting.result(timeout=120)
        finally:
            with suppress(OSError):  # wakes up who reads
                os.close(os.open(folder / name, os.O_WRONLY | os.O_NONBLOCK))
