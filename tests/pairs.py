"""A small random pair for tests of the page: the draft is the target with noise on its weights, so
that drafts are often accepted."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

from mars_core.models import PairSpec
from mars_core.types import ModelRef
from tests.checkpoints import tiny_checkpoint

NOISE = 0.1  # of each weight matrix's standard deviation
CONTEXT = 4096  # tokens


def tiny_pair(folder: Path) -> PairSpec:
    """Two checkpoints in ``folder``, made where they are not there yet, and their row of a
    catalog."""
    target, draft = folder / "target", folder / "draft"
    if not draft.is_dir():
        tiny_checkpoint("llama", target, max_position_embeddings=CONTEXT)
        _noisy_copy(target, tiny_checkpoint("llama", draft, max_position_embeddings=CONTEXT))
    return PairSpec(
        key="bundled",
        title="Two small random models",
        target=ModelRef(str(target)),
        draft=ModelRef(str(draft)),
        target_parameters=30_000,
        draft_parameters=30_000,
        note="Writes noise.",
        prompts=("Once upon a time", "2 + 2 ="),
    )


def _noisy_copy(source: Path, goal: Path) -> None:
    """``source`` with noise, saved over the checkpoint in ``goal``."""
    model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() == 2:
                weight += NOISE * weight.std() * torch.randn(weight.shape, generator=generator)
    model.save_pretrained(goal)
