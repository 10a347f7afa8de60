"""EAGLE-3 heads from the Hub or a folder: configuration first, refused early; then the weights, placed beside their target.

``plan_eagle`` needs the target's configuration only; ``load_planned`` needs the target. Keeps nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedConfig, PreTrainedModel

from mars_core.eagle3 import checkpoint, config, tensors  # modules, not names: they import errors from this package
from mars_core.eagle3.head import Eagle3Head, HeadConfig
from mars_core.models.errors import ModelError, explained
from mars_core.models.memory import needed
from mars_core.models.source import (
    DESCRIPTION_FILES,
    WEIGHTS,
    Progress,
    description,
    fingerprint,
    folder_of,
    is_local,
    label,
    snapshot,
)
from mars_core.types import ModelRef

TARGETS: Mapping[str, str] = {
    "llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3", "mistral": "Mistral", "phi3": "Phi-3"
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class HeadPlan:
    """A head that may be loaded: its configuration fits the target's."""

    ref: ModelRef  # a Hub head's is pinned to its commit
    config: HeadConfig
    parameters: int  # without the input embedding, which is the target's as a rule

    def bytes(self, dtype: torch.dtype) -> int:
        return needed(self.parameters, dtype)


def plan_eagle(ref: ModelRef, target: PreTrainedConfig, target_name: str, progress: Progress) -> HeadPlan:
    """Fetches and checks the configuration of ``ref`` for a target with the configuration ``target``. Raises ModelError."""
    if target.model_type not in TARGETS:
        raise ModelError(
            f"{target_name} is a {target.model_type} model, and EAGLE-3 heads are run with {', '.join(TARGETS.values())} "
            "only: choose such a target, or another drafter."
        )
    folder, pinned = description(ref, progress)
    with explained(ref):
        raw: Any = json.loads((folder / "config.json").read_bytes())
        if not isinstance(raw, dict):
            raise ModelError(f"config.json of {ref.name} is no JSON object: fetch or save it again.")
        read = config.read_config(raw, target, ref.name, target_name)
        with torch.device("meta"):
            head = Eagle3Head(read)
        parameters = sum(weight.numel() for weight in head.parameters()) - head.embed_tokens.weight.numel()
        return HeadPlan(pinned, read, parameters)


def load_planned(plan: HeadPlan, target: PreTrainedModel, progress: Progress) -> tuple[Eagle3Head, ModelRef]:
    """The planned head on the device and in the dtype of ``target``, and its reference with the revision resolved: a
    commit, or ``local:`` and a content hash. Raises ModelError."""
    ref = plan.ref
    folder = folder_of(ref) if is_local(ref) else _fetched(ref, progress)
    progress(f"Loading {label(ref)}: weights")
    with explained(ref), torch.no_grad():
        head = checkpoint.load_head(folder, plan.config, target, ref.name)
        return head, ModelRef(ref.name, _revision(folder, ref))


def load_eagle(
    ref: ModelRef, target: PreTrainedModel, target_name: str, progress: Progress
) -> tuple[Eagle3Head, ModelRef]:
    """Both steps at once. Raises ModelError."""
    return load_planned(plan_eagle(ref, target.config, target_name, progress), target, progress)


def _fetched(ref: ModelRef, progress: Progress) -> Path:
    """The snapshot with the weights. Pickles are fetched only where there are no safetensors, and read as tensors only."""
    folder = snapshot(ref, [*DESCRIPTION_FILES, WEIGHTS], progress)
    if any(folder.glob(WEIGHTS)):
        return folder
    return snapshot(ref, [*DESCRIPTION_FILES, tensors.PICKLES], progress)


def _revision(folder: Path, ref: ModelRef) -> str:
    if not is_local(ref):
        return folder.name
    files = tensors.weight_files(folder, ref.name)
    return fingerprint(folder) if files[0].suffix == ".safetensors" else tensors.fingerprint_pickles(folder, files)
