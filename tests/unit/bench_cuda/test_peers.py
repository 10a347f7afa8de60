"""The peers write what plain greedy decoding writes, whatever the draft."""

from __future__ import annotations

import pytest
import torch
from transformers import PreTrainedModel

from bench.common.peers import assisted, greedy, looped
from bench.common.shapes import PUBLIC, tiny
from bench.coupled import coupled_models

CPU = torch.device("cpu")
PROMPT = (5, 700, 41, 9, 1200)
NEW = 24


def models(key: str, noise: float) -> tuple[PreTrainedModel, PreTrainedModel]:
    return coupled_models(tiny(PUBLIC[key]), noise, CPU, torch.float32)


@pytest.mark.parametrize(("key", "noise"), [("llama", 0.0), ("qwen", 0.1), ("llama", 0.3)])
def test_peers_write_the_greedy_text(key: str, noise: float) -> None:
    target, draft = models(key, noise)
    wanted = greedy(target)(PROMPT, NEW).ids
    assert len(wanted) == NEW
    for k in (1, 5):
        assert looped(target, draft, k)(PROMPT, NEW).ids == wanted
    assert assisted(target, draft, 5)(PROMPT, NEW).ids == wanted


def test_plain_loop_takes_a_round_for_every_k_plus_one_tokens_of_a_perfect_draft() -> None:
    target, draft = models("llama", 0.0)
    assert looped(target, draft, 5)(PROMPT, NEW).steps == NEW // 6
