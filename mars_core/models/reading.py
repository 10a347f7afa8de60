"""Reads the weights of a planned model, and checks that the engine computes with them what the model
does.

The checks of a GGUF file on a CPU are remembered for a later start.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedModel

from mars_core.decoder import is_fast, prepare
from mars_core.decoder.quantised.weights import STORED
from mars_core.models.checks import remembered
from mars_core.models.checks.exactness import ShapeSearch, find_shapes
from mars_core.models.checks.probe import check, reference_logits
from mars_core.models.eagle.checkpoint import TARGETS
from mars_core.models.errors import ModelError, explained
from mars_core.models.gguf import header_in
from mars_core.models.progress import Progress, reported
from mars_core.models.source import GGUF, label, size_of, weight_files, weights
from mars_core.models.vocabulary import ModelPlan
from mars_core.types import ModelRef


class LoadedModel(NamedTuple):
    model: PreTrainedModel
    ref: ModelRef
    search: ShapeSearch


class Reading(NamedTuple):
    """How a planned model is read and checked: with token ids ``text``. ``exact``: the shapes of
    exact passes are searched. ``kernels``: those of steps are tried."""

    plan: ModelPlan
    device: torch.device
    dtype: torch.dtype
    progress: Progress
    text: Tensor
    exact: bool
    kernels: bool

    def loaded(self) -> LoadedModel:
        """Load the model in evaluation mode, without gradients; with fast layers if the engine
        computes the same with them. Raises ModelError."""
        plan = self.plan
        folder, ref, file = plan.folder, plan.ref, None
        if not ref.name.endswith(GGUF):
            folder, ref, _ = weights(ref, self.progress)
        elif self.device.type == "cpu":
            settings = (str(self.dtype), self.text.tolist(), self.exact, self.kernels)
            file = remembered.place(folder, *settings)
        with explained(plan.ref):
            model = self._read(folder)
            if file and (passed := remembered.recall(file)):
                fast, search = passed
                prepare(model, fast=fast)
                return LoadedModel(model, ref, search)
            model, search = self._checked(model, folder)
            if file:
                remembered.keep(file, is_fast(model), search)
            return LoadedModel(model, ref, search)

    def _checked(self, model: PreTrainedModel, folder: Path) -> tuple[PreTrainedModel, ShapeSearch]:
        trees, kernels = self.plan.config.model_type in TARGETS, self.kernels
        trial = reference_logits(model, self.text, self.plan.ref.name)
        prepare(model)
        self.progress(f"Loading {label(self.plan.ref)}: checking its cache and its rounding")
        while True:
            search = find_shapes(model, self.text, exact=self.exact, kernels=kernels)
            try:
                check(model, trial, shapes=search.shapes, trees=trees)
                return model, search
            except ModelError:
                if kernels:
                    kernels = False
                    continue
                if not is_fast(model):
                    raise
            del model
            model = self._read(folder)
            prepare(model, fast=False)

    def _read(self, folder: Path) -> PreTrainedModel:
        """Return the model as transformers loads it. ``dtype`` gguf: in float32 but for the quantised
        weights of its file, if it has some."""
        plan, device, dtype, progress = self.plan, self.device, self.dtype, self.progress
        if plan.ref.name.endswith(GGUF):
            from mars_core.models.gguf.model import read_model

            header = header_in(folder, plan.ref.name)
            kept = dtype == STORED and header and not header.lacks_levels()
            numbers = None if kept else torch.float32 if dtype == STORED else dtype
            model = read_model(folder, plan.config, plan.ref.name, numbers, progress)
            model.requires_grad_(False).to(device)  # type: ignore[arg-type]
            return model
        dtype = torch.float32 if dtype == STORED else dtype
        stage = (
            f"Loading {label(plan.ref)}: weights, {size_of(*weight_files(folder, plan.ref.name))}"
        )
        with reported(stage, progress):
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                folder,
                dtype=dtype,
                trust_remote_code=False,
                use_safetensors=True,
                output_loading_info=True,
                **({"device_map": {"": device}} if device.type == "cuda" else {}),
            )
        # transformers fills missing weights with random numbers
        if wrong := sorted(map(str, [*loaded[1]["missing_keys"], *loaded[1]["mismatched_keys"]])):
            raise ModelError(
                f"The weights of {plan.ref.name} do not fit its config.json ({len(wrong)} tensors, "
                f"e.g. {wrong[0]}): fetch or save both again."
            )
        whole: PreTrainedModel = loaded[0].eval().requires_grad_(False)
        return whole
