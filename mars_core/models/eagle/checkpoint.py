"""Loads an EAGLE-3 head: first its configuration is checked against the target, then the weights are
read, with the tensor names of both families; embeddings that it does not store come from the target.

Unknown, missing, misshapen and non-finite tensors raise an error. A pickle is read as tensors only
(``weights_only=True``), which runs no code of the file; models are not read from pickles anywhere in
this program, but the first EAGLE-3 heads were published only as pickles.
"""

from __future__ import annotations

import pickle
import re
import zipfile
from collections.abc import Collection, Mapping, MutableMapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from mars_core.eagle3.head import Eagle3Head, HeadConfig
from mars_core.models.eagle.config import read_config
from mars_core.models.errors import ModelError, explained
from mars_core.models.progress import Progress
from mars_core.models.source import PlannedModel, json_description, label, size_of, weights
from mars_core.types import ModelRef

_LAYER = ("midlayer.", "layers.0.")  # EAGLE's and speculators' names for the only layer
# Optional although attention_bias is set: EAGLE's code has none, Qwen2 has no output bias.
_BIASES = ("q_proj.bias", "k_proj.bias", "v_proj.bias", "o_proj.bias")
_EMBEDDING, _OUTPUT, _OFFSETS, _MARKS = "embed_tokens.weight", "lm_head.weight", "d2t", "t2d"


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
    """Load the planned head, in evaluation mode, on the device of ``target``'s embedding and in its
    dtype, and its reference with the revision resolved. Raises ModelError."""
    _, ref, files = weights(plan.ref, progress, pickles=True)
    with explained(ref), torch.no_grad():
        progress(f"Loading {label(ref)}: weights, {size_of(*files)}")
        try:
            return _loaded(files, plan.config, target), ref
        except _Misfit as reason:
            raise ModelError(
                f"The weights of the EAGLE-3 head {ref.name} {reason}: choose a head whose files fit "
                "its config.json and the target, or fetch it again."
            ) from reason


class _Misfit(ValueError):
    """What the weights have or lack, as the rest of a sentence."""


def _loaded(files: Sequence[Path], config: HeadConfig, target: PreTrainedModel) -> Eagle3Head:
    """Return the head of these files. An absent input embedding is replaced by ``target``'s module;
    so is the output embedding if the vocabularies are the same."""
    with torch.device("meta"):
        head = Eagle3Head(config)
    stored = _stored(files, head)
    offsets = _offsets(stored, config)
    table = cast(nn.Embedding, target.get_input_embeddings()).weight
    device, dtype = table.device, target.dtype
    state = {name: _converted(name, each, device, dtype) for name, each in stored.items()}
    for parameter, empty in head.state_dict().items():
        if parameter.endswith(_BIASES) and parameter not in state:
            state[parameter] = torch.zeros(empty.shape, device=device, dtype=dtype)
    if _EMBEDDING in state and _OUTPUT not in state and config.layer.tie_word_embeddings:
        state[_EMBEDDING] = state[_OUTPUT] = nn.Parameter(state[_EMBEDDING])
    borrowed = _borrow(head, state.keys(), target)
    state[_OFFSETS] = offsets.to(device)
    try:
        missing = {*head.load_state_dict(state, strict=False, assign=True).missing_keys} - borrowed
    except RuntimeError as error:  # of sizes, a line each after the first
        raise _Misfit(f"have a {str(error).splitlines()[1].strip().rstrip('.')}") from error
    if missing:
        raise _Misfit(f"lack {min(missing)}")
    head.rotary = LlamaRotaryEmbedding(config.layer).to(
        device
    )  # its frequencies are float32 in every dtype
    return head.eval().requires_grad_(False)


def _stored(files: Sequence[Path], head: Eagle3Head) -> dict[str, Tensor]:
    """Read the tensors, from the names of either family, with or without ``model.``, by parameter;
    and t2d. Pickles are not copied into memory where they can be mapped."""
    known = {alias: parameter for parameter in head.state_dict() for alias in aliases(parameter)}
    known[_MARKS] = _MARKS
    stored = dict[str, Tensor]()
    for path in files:
        part = load_file(path) if path.suffix == ".safetensors" else _unpickled(path)
        for alias, tensor in part.items():
            plain = alias.removeprefix("model.")
            if plain.rpartition(".")[2] == "inv_freq":
                continue  # rotary frequencies, which follow from the configuration
            parameter = known.get(plain)
            if parameter is None:
                raise _Misfit(f"have {alias}, which no head of its config.json has")
            if parameter in stored:
                raise _Misfit(f"have {parameter} twice, last as {alias} in {path.name}")
            stored[parameter] = tensor
    return stored


def _unpickled(path: Path) -> dict[str, Tensor]:
    loaded: Any = None
    with suppress(pickle.UnpicklingError, EOFError):
        loaded = torch.load(
            path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path)
        )
    if isinstance(loaded, Mapping) and all(
        isinstance(k, str) and isinstance(v, Tensor) for k, v in loaded.items()
    ):
        return dict(loaded)
    raise ModelError(
        f"{path} is damaged or contains objects other than tensors, which could "
        "run code, so it was not loaded: save the weights as safetensors."
    )


def aliases(parameter: str) -> list[str]:
    """Return the names of a parameter in both families: ``layer.q_proj.weight`` is
    ``midlayer.self_attn.q_proj.weight``, for example."""
    parameter = re.sub(r"^layer\.([qkvo]_)", r"layer.self_attn.\1", parameter)
    return [re.sub(r"^layer\.", prefix, parameter) for prefix in _LAYER]


def _converted(name: str, tensor: Tensor, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Return a copy, since the file may be mapped."""
    if not tensor.is_floating_point() or tensor.layout != torch.strided:
        raise _Misfit(f"have {name} in a form that is no floating point numbers")
    copied = tensor.detach().to(device, dtype, copy=True).contiguous()
    if not torch.isfinite(copied).all():
        raise _Misfit(f"have values in {name} that are not finite as {dtype}")
    return copied


def _offsets(stored: MutableMapping[str, Tensor], config: HeadConfig) -> Tensor:
    """Take d2t [D] and t2d [V] out: draft ids map to distinct target ids, and t2d marks exactly
    these."""
    size, vocabulary = config.draft_vocabulary, config.target_vocabulary
    offsets, marks = stored.pop(_OFFSETS, None), stored.pop(_MARKS, None)
    if offsets is None:
        if size < vocabulary:
            raise _Misfit(f"lack d2t for {size} ids of the target's {vocabulary}")
        offsets = torch.zeros(size, dtype=torch.long)
    if offsets.is_floating_point() or offsets.dtype == torch.bool or offsets.shape != (size,):
        raise _Misfit(f"have d2t as {offsets.dtype} {list(offsets.shape)}, not {size} integers")
    offsets = offsets.long()
    ids = (torch.arange(size) + offsets).sort().values
    if ids[0] < 0 or ids[-1] >= vocabulary:
        raise _Misfit(f"have in d2t ids of the target beyond 0 to {vocabulary - 1}")
    if (ids[1:] == ids[:-1]).any():
        raise _Misfit("have in d2t one id of the target for two of the draft's")
    if marks is not None and not torch.equal(marks.nonzero().flatten(), ids):
        raise _Misfit("mark in t2d other ids of the target than d2t has")
    return offsets


def _borrow(head: Eagle3Head, has: Collection[str], target: PreTrainedModel) -> set[str]:
    """Use the target's embeddings where the head has none; return which these are."""
    borrowed = set[str]()
    for part, module in (
        ("embed_tokens", target.get_input_embeddings()),
        ("lm_head", target.get_output_embeddings()),
    ):
        parameter, wanted = f"{part}.weight", getattr(head, part).weight.shape
        if parameter in has:
            continue
        if getattr(getattr(module, "weight", None), "shape", None) != wanted:
            shape = list(wanted)
            raise _Misfit(f"lack {parameter} {shape}, and the target has none of this shape")
        setattr(head, part, module)
        borrowed.add(parameter)
    return borrowed
