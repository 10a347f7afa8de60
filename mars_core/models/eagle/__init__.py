"""EAGLE-3 heads from the Hub or a folder: first the configuration, checked against the target, then
the weights, on the target's device."""

from __future__ import annotations

import torch
from transformers import PreTrainedConfig, PreTrainedModel

from mars_core.eagle3.head import Eagle3Head, HeadConfig
from mars_core.models.eagle.checkpoint import load_head
from mars_core.models.eagle.config import read_config
from mars_core.models.errors import ModelError, explained
from mars_core.models.progress import Progress
from mars_core.models.source import (
    PlannedModel,
    json_description,
    label,
    size_of,
    weight_files,
    weights,
)
from mars_core.types import ModelRef

TARGETS = {
    "llama": "Llama",
    "qwen2": "Qwen2",
    "qwen3": "Qwen3",
    "mistral": "Mistral",
    "phi3": "Phi-3",
}


def plan_eagle(
    ref: ModelRef, target: PreTrainedConfig, target_name: str, progress: Progress
) -> PlannedModel[HeadConfig]:
    """Fetches and checks the configuration of ``ref`` for a target with the configuration
    ``target``. Raises ModelError."""
    if target.model_type not in TARGETS:
        raise ModelError(
            f"{target_name} is a {target.model_type} model, and EAGLE-3 heads are run with "
            f"{', '.join(TARGETS.values())} only: choose such a target, or another drafter."
        )
    folder, pinned, raw = json_description(ref, progress)
    with explained(ref):
        config = read_config(raw, target, ref.name, target_name)
        with torch.device("meta"):
            head = Eagle3Head(config)
        parameters = (
            sum(weight.numel() for weight in head.parameters()) - head.embed_tokens.weight.numel()
        )
        return PlannedModel(pinned, folder, config, parameters)


def load_eagle(
    plan: PlannedModel[HeadConfig], target: PreTrainedModel, progress: Progress
) -> tuple[Eagle3Head, ModelRef]:
    """Load the planned head on the device and in the dtype of ``target``, and its reference with
    the revision resolved. Raises ModelError."""
    folder, ref = weights(plan.ref, progress, pickles=True)
    with explained(ref), torch.no_grad():
        size = size_of(*weight_files(folder, ref.name, pickles=True))
        progress(f"Loading {label(ref)}: weights, {size}")
        return load_head(folder, plan.config, target, ref.name), ref
