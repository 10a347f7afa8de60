"""A small random target with a random EAGLE-3 head, for tests of the page: drafts are trees, and
seldom accepted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

from mars_core.models import PairSpec
from mars_core.models.catalog import Theta
from mars_core.types import ModelRef
from tests.checkpoints import tiny_checkpoint
from tests.eagle_heads import random_head, save_head, tiny_config
from tests.pairs import CONTEXT, tiny_pair

PAIR_THETA = Theta(0.8, "its logits are those of chance.")
LAYERS = 8  # a head reads three of them: 2, 4 and 5


def eagle_pair(folder: Path) -> PairSpec:
    """The pair of ``tests.pairs`` with another target, and a head for it; made in ``folder`` where
    it is not there yet."""
    target, head = folder / "deep", folder / "head"
    spec = tiny_pair(folder)
    if not head.is_dir():
        tiny_checkpoint("llama", target, num_hidden_layers=LAYERS, max_position_embeddings=CONTEXT)
        model = AutoModelForCausalLM.from_pretrained(target, dtype=torch.float32)
        save_head(
            random_head(tiny_config(model.config, max_position_embeddings=CONTEXT), model), head
        )
    return replace(
        spec,
        key="eagle",
        title="A small random model with a head",
        target=ModelRef(str(target)),
        draft=None,
        draft_parameters=0,
        head=ModelRef(str(head)),
        theta=PAIR_THETA,
    )
