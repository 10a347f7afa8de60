"""Loads models from references: configuration checks first, then weights, placement and numerical
checks.

``plan`` reads configurations only; ``load`` fetches the weights. Between the two the caller may
free memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from accelerate import dispatch_model, infer_auto_device_map
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from mars_core.decoder import ANY_SHAPE, PassShapes, has_kernels, is_fast, prepare
from mars_core.decoder.quantised import STORED
from mars_core.eagle3.cache import prepare_head
from mars_core.eagle3.head import Eagle3Head, HeadConfig
from mars_core.margins import Margins
from mars_core.models.catalog import PairSpec
from mars_core.models.checks.exactness import (
    ShapeSearch,
    find_shapes,
    real_text,
    try_kernels,
)
from mars_core.models.checks.probe import check, check_class, check_config, reference_logits
from mars_core.models.checks.untrusted import check_config_file
from mars_core.models.classifier import (
    Classifier,
    ClassifierConfig,
    load_classifier,
    plan_classifier,
)
from mars_core.models.eagle import TARGETS, load_eagle, plan_eagle
from mars_core.models.errors import ModelError, explained
from mars_core.models.gguf import description, weights
from mars_core.models.gguf.kept import lacks_levels, stored_dtype
from mars_core.models.idle import Engines
from mars_core.models.memory import free_bytes
from mars_core.models.source import (
    GGUF,
    PlannedModel,
    Progress,
    label,
    reported,
    size_of,
    weight_files,
)
from mars_core.models.vocabulary import ModelPlan, draftable, end_ids, read_tokenizer
from mars_core.text.detokenize import Pieces
from mars_core.types import ModelRef

_FALLBACK_CONTEXT = 2048  # tokens, for models without a documented limit
_LARGE = 50_000_000  # parameters: smaller models are as fast in float32
_NO_LIMIT = 10**9  # tokenizers write a huge model_max_length for "unknown"


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """A target and its drafters on a device, ready to run. The refs carry the resolved revisions.
    Only ids below ``vocabulary`` may be drafted. ``context`` is the longest sequence, in tokens,
    that the target can take, ``draft_context`` that of the draft model."""

    spec: PairSpec
    target: PreTrainedModel
    draft: PreTrainedModel | None
    tokenizer: PreTrainedTokenizerBase
    device: torch.device
    dtype: torch.dtype
    target_ref: ModelRef
    draft_ref: ModelRef | None
    context: int
    eos_ids: frozenset[int]
    vocabulary: int
    draft_context: int | None = None
    head: Eagle3Head | None = None
    head_ref: ModelRef | None = None
    classifier: Classifier | None = None
    classifier_ref: ModelRef | None = None
    graphs: bool = False  # whether steps are captured as CUDA graphs
    shapes: PassShapes = ANY_SHAPE  # of the target's passes
    inexact: str = (
        "it was not checked"  # why a token's logits may depend on its pass; empty where they do not
    )
    margins: Margins = ()  # of the target, on ``spec.text`` and its continuation
    engines: Engines[Any] = field(default_factory=Engines)
    pieces: Pieces = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "pieces", Pieces(self.tokenizer))

    @property
    def exact(self) -> bool:
        """Whether a token's logits are bitwise the same in all passes over chains."""
        return not self.inexact


class Plans(NamedTuple):
    """Of a pair's models."""

    target: ModelPlan
    draft: ModelPlan | None
    head: PlannedModel[HeadConfig] | None
    classifier: PlannedModel[ClassifierConfig] | None


def plan(spec: PairSpec, progress: Progress) -> Plans:
    """Reads and checks the configurations of a pair. Raises ModelError."""
    target = _plan_model(spec.target, progress)
    draft = _plan_model(spec.draft, progress) if spec.draft else None
    of_target = target.config, spec.target.name, progress
    return Plans(
        target,
        draft,
        plan_eagle(spec.head, *of_target) if spec.head else None,
        plan_classifier(spec.classifier, *of_target) if spec.classifier else None,
    )


def _plan_model(ref: ModelRef, progress: Progress) -> ModelPlan:
    folder, pinned = description(ref, progress)
    check_config_file(folder, ref.name)
    with explained(ref):
        config: PreTrainedConfig = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        check_config(config, ref.name)
        build: Any = AutoModelForCausalLM.from_config
        with torch.device("meta"):
            empty: PreTrainedModel = build(config, trust_remote_code=False)
        check_class(empty, ref.name)
        bits, tables = _bits(config), {empty.get_input_embeddings(), empty.get_output_embeddings()}
        dense = sum(
            weight.numel() for table in tables if table is not None for weight in table.parameters()
        )
        total = empty.num_parameters()
        return PlannedModel(
            pinned, folder, config, total, total - min(dense, total) if bits else 0, bits
        )


def _bits(config: PreTrainedConfig) -> int:
    """Bits per weight of the linear layers where they stay quantised in memory (bitsandbytes, GPTQ,
    AWQ). 0: not quantised, or formats that may be widened on loading."""
    quantization: Any = getattr(config, "quantization_config", None) or {}
    stored: dict[str, Any] = (
        quantization if isinstance(quantization, dict) else quantization.to_dict()
    )
    if stored.get("quant_method") in ("gptq", "awq"):
        return int(stored.get("bits", 4))
    return 4 if stored.get("load_in_4bit") else 8 if stored.get("load_in_8bit") else 0


def suited(target: ModelPlan) -> torch.dtype:
    """Return the dtype for ``auto`` on a CPU: that of the file, where the processor multiplies it
    and the products take most of the time."""
    if not lacks_levels(target.folder):
        return STORED
    native = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    stored = stored_dtype(target.folder) or target.config.dtype
    large = target.parameters >= _LARGE
    return torch.bfloat16 if native and large and stored == torch.bfloat16 else torch.float32


def load(
    spec: PairSpec,
    plans: Plans,
    device: torch.device,
    dtype: torch.dtype,
    graphs: bool,
    progress: Progress,
    kernels: bool | None = None,
) -> Pair:
    """Load and check a planned pair. A target larger than one GPU is distributed by accelerate.
    ``kernels``: whether those of steps are tried, by default where they are compiled and captured.
    Raises ModelError."""
    if dtype == STORED and (reason := lacks_levels(plans.target.folder)):
        raise ModelError(
            f"{spec.target.name} cannot be used in gguf here: {reason}; choose another dtype."
        )
    progress(f"Loading {label(spec.target)}: tokenizers")
    tokenizer = read_tokenizer(plans.target)
    vocabulary = draftable(plans.target, plans.draft, tokenizer)
    text, second = real_text(tokenizer, vocabulary, spec.text), None
    kernels = graphs and has_kernels(device, dtype) if kernels is None else kernels
    if plans.draft:  # may be stored otherwise than the target
        second = _model(plans.draft, device, dtype, progress, text, kernels=kernels)
        kernels = second.search.shapes.kernels
    spread = _spread(plans.target, device, dtype)
    first = _model(plans.target, device, dtype, progress, text, spread, exact=True, kernels=kernels)
    head, head_ref = load_eagle(plans.head, first.model, progress) if plans.head else (None, None)
    if head is not None:
        prepare_head(head)
    classifier, classifier_ref = None, None
    if plans.classifier:
        classifier, classifier_ref = load_classifier(plans.classifier, first.model.device, progress)
    fast = is_fast(first.model) and (second is None or is_fast(second.model))
    return Pair(
        spec=spec,
        target=first.model,
        draft=second and second.model,
        head=head,
        tokenizer=tokenizer,
        device=first.model.device,
        dtype=dtype,
        target_ref=first.ref,
        draft_ref=second and second.ref,
        head_ref=head_ref,
        classifier=classifier,
        classifier_ref=classifier_ref,
        context=_context(plans.target.config, tokenizer),
        draft_context=_context(plans.draft.config, tokenizer) if plans.draft else None,
        eos_ids=end_ids(first.model, tokenizer),
        vocabulary=vocabulary,
        graphs=graphs and fast and first.model.device.type == "cuda",
        **first.search._asdict(),
    )


def _model(
    plan: ModelPlan,
    device: torch.device,
    dtype: torch.dtype,
    progress: Progress,
    text: Tensor,
    spread: dict[int | str, int] | None = None,
    *,
    exact: bool = False,
    kernels: bool,
) -> _Loaded:
    """Load the model in evaluation mode, without gradients, on ``device`` or distributed as in
    ``spread``; with fast layers if the engine computes the same with them on token ids ``text``.
    ``exact``: the shapes of exact passes are searched."""
    trees = plan.config.model_type in TARGETS
    folder, ref = weights(plan.ref, progress)
    with explained(plan.ref):
        model = _read(plan, folder, device, dtype, progress, spread)
        trial = reference_logits(model, text, plan.ref.name)
        prepare(model)
        progress(f"Loading {label(plan.ref)}: checking its cache and its rounding")
        while True:
            search = try_kernels(model, text) if kernels else None
            search = search or find_shapes(model, text if exact else None)
            try:
                check(model, trial, shapes=search.shapes, trees=trees)
                return _Loaded(model, ref, search)
            except ModelError:
                if kernels:
                    kernels = False
                    continue
                if not is_fast(model):
                    raise
            del model
            model = _read(plan, folder, device, dtype, progress, spread)
            prepare(model, fast=False)


class _Loaded(NamedTuple):
    model: PreTrainedModel
    ref: ModelRef
    search: ShapeSearch


def _read(
    plan: ModelPlan,
    folder: Path,
    device: torch.device,
    dtype: torch.dtype,
    progress: Progress,
    spread: dict[int | str, int] | None,
) -> PreTrainedModel:
    """Return the model as transformers loads it. ``dtype`` gguf: in float32 but for the quantised
    weights of its file, if it has some."""
    if plan.ref.name.endswith(GGUF):
        from mars_core.models.gguf.model import read_model

        kept = dtype == STORED and not lacks_levels(folder)
        numbers = None if kept else torch.float32 if dtype == STORED else dtype
        return _placed(
            read_model(folder, plan.config, plan.ref.name, numbers, progress), device, spread
        )
    options: dict[str, Any] = (
        {"device_map": "auto", "max_memory": spread} if spread else {"device_map": {"": device}}
    )
    dtype = torch.float32 if dtype == STORED else dtype
    stage = f"Loading {label(plan.ref)}: weights, {size_of(*weight_files(folder, plan.ref.name))}"
    with reported(stage, progress):
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=dtype,
            trust_remote_code=False,
            use_safetensors=True,
            output_loading_info=True,
            **(options if device.type == "cuda" else {}),
        )
    # transformers fills missing weights with random numbers
    if wrong := sorted(map(str, [*loaded[1]["missing_keys"], *loaded[1]["mismatched_keys"]])):
        raise ModelError(
            f"The weights of {plan.ref.name} do not fit its config.json ({len(wrong)} tensors, "
            f"e.g. {wrong[0]}): fetch or save both again."
        )
    model: PreTrainedModel = loaded[0].eval().requires_grad_(False)
    return model


def _placed(
    model: PreTrainedModel, device: torch.device, spread: dict[int | str, int] | None
) -> PreTrainedModel:
    """Move a model that was read on the CPU to ``device``, or to several."""
    model.requires_grad_(False)
    if not spread:
        model.to(device)  # type: ignore[arg-type]
        return model
    places = infer_auto_device_map(
        model, max_memory=spread, no_split_module_classes=model._no_split_modules
    )
    placed: PreTrainedModel = dispatch_model(model, places)
    return placed


def _spread(
    target: ModelPlan, device: torch.device, dtype: torch.dtype
) -> dict[int | str, int] | None:
    """Memory limits for accelerate where ``target`` does not fit on ``device``, a GPU: 85 % of the
    free bytes of every GPU (the rest is for cache and activations), then the host's."""
    if device.type != "cuda" or target.bytes(dtype) <= free_bytes(device):
        return None
    gpus = (torch.device("cuda", index) for index in range(torch.cuda.device_count()))
    limits: dict[int | str, int] = {gpu.index: int(0.85 * free_bytes(gpu)) for gpu in gpus}
    return {**limits, "cpu": free_bytes(torch.device("cpu"))}


def _context(config: PreTrainedConfig, tokenizer: PreTrainedTokenizerBase) -> int:
    """Maximum context in tokens. Rotary scalings that depend on the length limit it to the length
    at which they start, because keys in the cache keep the old scaling, and a block would be scaled
    differently from its single tokens."""
    text = config.get_text_config(decoder=True)
    limit = getattr(text, "max_position_embeddings", None)
    if not isinstance(limit, int) or limit <= 0:
        limit = (
            tokenizer.model_max_length
            if 0 < tokenizer.model_max_length < _NO_LIMIT
            else _FALLBACK_CONTEXT
        )
    parameters = getattr(text, "rope_parameters", None) or {}
    for rope in (parameters, *(value for value in parameters.values() if isinstance(value, dict))):
        if rope.get("rope_type") in ("dynamic", "longrope"):
            key = "original_max_position_embeddings"
            limit = min(limit, int(rope.get(key) or getattr(text, key, None) or limit))
    return int(limit)
