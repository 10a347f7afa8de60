"""A small language model as drafter."""

from __future__ import annotations

from mars_core.drafting.base import Drafter, DrafterKind, Parts
from mars_core.types import DraftMode


def _build(parts: Parts) -> Drafter:
    from mars_core.drafting.draft_model import ModelDrafter  # imported here: it loads transformers

    return ModelDrafter(parts)


MODEL = DrafterKind(
    name="model",
    title="draft model",
    drafts="drafts",
    summary="A smaller language model with the target's vocabulary.",
    source="Leviathan et al. 2211.17192",
    build=_build,
    part="draft",
    option="Hub id, folder or GGUF file of a draft model",
    modes=tuple(DraftMode),
    vllm="draft_model",
)
