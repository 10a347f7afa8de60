"""Loads models from references: configuration checks first, then weights, placement and numerical
checks.

``plan`` reads configurations only; ``load`` fetches the weights. Between the two the caller may
free memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from mars_core.decoder import ANY_SHAPE, PassShapes, has_kernels, is_fast
from mars_core.decoder.quantised.weights import STORED
from mars_core.eagle3.cache import prepare_head
from mars_core.eagle3.head import Eagle3Head, HeadConfig
from mars_core.margins import Margins
from mars_core.models.catalog import PairSpec
from mars_core.models.checks.exactness import (
    real_text,
)
from mars_core.models.checks.probe import check_class, check_config
from mars_core.models.checks.untrusted import check_config_file
from mars_core.models.classifier import (
    Classifier,
    ClassifierConfig,
    load_classifier,
    plan_classifier,
)
from mars_core.models.eagle.checkpoint import load_eagle, plan_eagle
from mars_core.models.errors import ModelError, explained
from mars_core.models.gguf import description, header_in
from mars_core.models.idle import Engines
from mars_core.models.progress import Progress
from mars_core.models.reading import Reading
from mars_core.models.source import PlannedModel, label
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
    header = header_in(target.folder, target.ref.name)
    if header and not header.lacks_levels():
        return STORED
    native = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    halved = header.halved if header else target.config.dtype == torch.bfloat16
    large = target.parameters >= _LARGE
    return torch.bfloat16 if native and large and halved else torch.float32


def load(
    spec: PairSpec,
    plans: Plans,
    device: torch.device,
    dtype: torch.dtype,
    graphs: bool,
    progress: Progress,
    kernels: bool | None = None,
) -> Pair:
    """Load and check a planned pair. ``kernels``: whether those of steps are tried, by default where
    they are compiled and captured. Raises ModelError."""
    if dtype == STORED:
        header = header_in(plans.target.folder, spec.target.name)
        if reason := header.lacks_levels() if header else "that takes a GGUF file":
            raise ModelError(
                f"{spec.target.name} cannot be used in gguf here: {reason}; choose another dtype."
            )
    progress(f"Loading {label(spec.target)}: tokenizers")
    tokenizer = read_tokenizer(plans.target)
    vocabulary = draftable(plans.target, plans.draft, tokenizer)
    text, second = real_text(tokenizer, vocabulary, spec.text), None
    if kernels is None:
        kernels = has_kernels(device, dtype) and (graphs or device.type == "cpu")
    how = device, dtype, progress, text
    if plans.draft:  # may be stored otherwise than the target
        second = Reading(plans.draft, *how, exact=False, kernels=kernels).loaded()
        if device.type == "cuda":
            kernels = second.search.shapes.kernels
    first = Reading(plans.target, *how, exact=True, kernels=kernels).loaded()
    head, head_ref = load_eagle(plans.head, first.model, progress) if plans.head else (None, None)
    if head is not None:
        prepare_head(head, quantised=first.search.shapes.kernels and dtype == STORED)
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
