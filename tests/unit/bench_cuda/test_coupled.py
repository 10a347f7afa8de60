"""The peers write what plain greedy decoding writes, whatever the draft."""

from __future__ import annotations

import pytest
import torch

from bench.common.peers import assisted, greedy
from bench.cuda.coupled import coupled_models, prompts, word_tokenizer
from bench.cuda.shapes import TINY_SHAPES

CPU = torch.device("cpu")
NEW = 24  # tokens of the peers


@pytest.mark.parametrize(("key", "noise"), [("llama", 0.0), ("qwen", 0.1), ("llama", 0.3)])
def test_peers_write_the_greedy_text(key: str, noise: float) -> None:
    target, draft = coupled_models(TINY_SHAPES[key], noise, CPU, torch.float32)
    (prompt,), tokenizer = prompts(1), word_tokenizer(1024)
    wanted = greedy(target, tokenizer, NEW)(prompt, 0).ids
    assert len(wanted) == NEW
    assert assisted(target, draft, 5, tokenizer, NEW)(prompt, 0).ids == wanted
