"""Classifiers of the target's last hidden state, from the Hub or a folder with config.json and
safetensors: linear, or with one hidden layer.

``reads`` says of which token the hidden state is: ``token``, the drafted one (rule ``judge``), or
``position``, the one before it (``score`` in expressions).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import PreTrainedConfig

from mars_core.models.errors import ModelError, explained
from mars_core.models.progress import Progress
from mars_core.models.source import PlannedModel, json_description, weights
from mars_core.types import ModelRef

KIND = "token-classifier"  # model_type in config.json


class Reads(StrEnum):
    TOKEN = "token"
    POSITION = "position"


class ClassifierConfig(NamedTuple):
    """``intermediate_size``: of the hidden layer (SiLU); 0: linear."""

    reads: Reads
    hidden_size: int
    intermediate_size: int = 0


class Classifier(nn.Module):
    """Features [..., ≥ H], which end with the target's last hidden state, as scores [..., 1], 0 to
    1: how probably another token than the target's changes the answer."""

    def __init__(self, config: ClassifierConfig) -> None:
        super().__init__()
        self.config = config
        _, size, inner = config
        layers = [nn.Linear(size, inner), nn.SiLU()] if inner else []
        self.layers = nn.Sequential(*layers, nn.Linear(inner or size, 1))

    @property
    def reads(self) -> Reads:
        return self.config.reads

    def forward(self, features: Tensor) -> Tensor:
        logits: Tensor = self.layers(features[..., -self.config.hidden_size :].float())
        return logits.sigmoid()


def plan_classifier(
    ref: ModelRef, target: PreTrainedConfig, target_name: str, progress: Progress
) -> PlannedModel[ClassifierConfig]:
    """Fetches and checks the configuration of ``ref`` for a target with the configuration
    ``target``. Raises ModelError."""
    folder, pinned, raw = json_description(ref, progress)
    size, inner, reads = (raw.get(name) for name in ("hidden_size", "intermediate_size", "reads"))
    width = target.get_text_config(decoder=True).hidden_size
    for name, value, fits, wanted in (
        ("model_type", raw.get("model_type"), raw.get("model_type") == KIND, KIND),
        ("reads", reads, reads in list(Reads), " or ".join(Reads)),
        ("hidden_size", size, size == width, f"{width}, as in {target_name}"),
        ("intermediate_size", inner, _is_size(inner), "0 (linear) to 65536"),
    ):
        if not fits:
            raise ModelError(
                f"{name} in config.json of {ref.name} is {str(value)[:40]!a}; it must be {wanted}."
            )
    config = ClassifierConfig(Reads(str(reads)), width, int(inner or 0))
    parameters = sum(each.numel() for each in _empty(config).parameters())
    return PlannedModel(pinned, folder, config, parameters)


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and 0 <= value <= 65536


def _empty(config: ClassifierConfig) -> Classifier:
    with torch.device("meta"):
        return Classifier(config)


def load_classifier(
    plan: PlannedModel[ClassifierConfig], device: torch.device, progress: Progress
) -> tuple[Classifier, ModelRef]:
    """Load it in float32 on the device, and its reference with the revision resolved. Raises
    ModelError."""
    _, ref, files = weights(plan.ref, progress)
    classifier = _empty(plan.config)
    wanted = {name: each.shape for name, each in classifier.state_dict().items()}
    with explained(ref):
        tensors = {name: each for file in files for name, each in load_file(file).items()}
        if {name: each.shape for name, each in tensors.items()} != wanted:
            shapes = ", ".join(f"{name} {list(shape)}" for name, shape in wanted.items())
            raise ModelError(f"The tensors of {ref.name} do not fit its config.json: {shapes}.")
        if not all(bool(each.isfinite().all()) for each in tensors.values()):
            raise ModelError(f"The weights of {ref.name} have values that are not finite.")
        classifier.load_state_dict(tensors, assign=True)
    return classifier.float().to(device).eval().requires_grad_(False), ref
