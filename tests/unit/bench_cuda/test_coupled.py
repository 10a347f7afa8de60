"""The peers write what plain greedy decoding writes, whatever the draft."""

from __future__ import annotations

import pytest
import torch

from bench.common.peers import assisted, greedy
from bench.cuda.coupled import coupled_models
from bench.cuda.shapes import TINY_SHAPES

CPU = torch.device("cpu")
PROMPT, NEW = (5, 700, 41, 9, 1200), 24  # of the peers


@pytest.mark.parametrize(("key", "noise"), [("llama", 0.0), ("qwen", 0.1), ("llama", 0.3)])
def test_peers_write_the_greedy_text(key: str, noise: float) -> None:
    target, draft = coupled_models(TINY_SHAPES[key], noise, CPU, torch.float32)
    wanted = greedy(target)(PROMPT, NEW).ids
    assert len(wanted) == NEW
    assert assisted(target, draft, 5)(PROMPT, NEW).ids == wanted
