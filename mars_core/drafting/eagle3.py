"""An EAGLE-3 head as drafter: it reads hidden states of the target."""

from __future__ import annotations

from mars_core.drafting.base import Drafter, DrafterKind, Parts
from mars_core.types import DraftMode


def _build(parts: Parts) -> Drafter:
    from mars_core.drafting.eagle3_drafter import (
        Eagle3Drafter,  # imported here: it loads transformers
    )

    return Eagle3Drafter(parts)


EAGLE3 = DrafterKind(
    name="eagle3",
    title="EAGLE-3 head",
    drafts="EAGLE-3 drafts",
    summary="A layer that reads hidden states of the target, trained for it; it drafts trees.",
    source="EAGLE-3 2503.01840, dynamic trees 2406.16858",
    build=_build,
    part="head",
    option="eagle3 (the pair's head), eagle3:ID or FOLDER",
    modes=(DraftMode.COUPLED, DraftMode.GREEDY),
    trees=True,
    feature_layers=lambda pair: pair.head.config.feature_layers if pair.head else (),
    vllm="eagle3",
)
