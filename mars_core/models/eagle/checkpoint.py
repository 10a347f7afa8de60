"""Loads an EAGLE-3 head, with the tensor names of both families; embeddings that it does not store
come from the target.

Every tensor is checked before the head is built: unknown, missing, misshapen and non-finite ones
raise an error. A pickle is read as tensors only (``weights_only=True``), which runs no code of the
file; models are not read from pickles anywhere in this program, but the first EAGLE-3 heads
were published only as pickles.
"""

from __future__ import annotations

import pickle
import re
import zipfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from mars_core.eagle3.head import Eagle3Head, HeadConfig
from mars_core.models.errors import ModelError
from mars_core.models.source import weight_files

_LAYER = ("midlayer.", "layers.0.")  # EAGLE's and speculators' names for the only layer
_OLD_NAMES = {
    f"aux_norm_{level}.weight": f"fc_norm.{i}.weight"
    for i, level in enumerate(("low", "mid", "high"))
}
# Optional although attention_bias is set: EAGLE's code has none, Qwen2 has no output bias.
_BIASES = ("q_proj.bias", "k_proj.bias", "v_proj.bias", "o_proj.bias")
_EMBEDDING, _OUTPUT, _OFFSETS, _MARKS = "embed_tokens.weight", "lm_head.weight", "d2t", "t2d"


def load_head(folder: Path, config: HeadConfig, target: PreTrainedModel, name: str) -> Eagle3Head:
    """Load the head in ``folder``, in evaluation mode, on the device of ``target``'s embedding and
    in its dtype. An absent input embedding is replaced by ``target``'s module; so is the output
    embedding if the vocabularies are the same. ``name`` is for messages. Raises ModelError, and the
    errors of reading a damaged file."""
    with torch.device("meta"):
        head = Eagle3Head(config)
    weights = _Weights(
        _by_parameter(_read(weight_files(folder, name, pickles=True), name), head, name), name
    )
    weights.check(head, config)
    offsets = _offsets(weights, config)
    table = cast(nn.Embedding, target.get_input_embeddings())
    device, dtype = table.weight.device, target.dtype
    if device.type == "meta":
        raise ModelError(
            f"The target of {name} does not fit on one device, so its embedding is not available: "
            "choose a smaller target or dtype."
        )
    _borrow(head, weights, target, table)
    empty = head.state_dict()
    names = sorted(weights.by_parameter.keys() - {_OFFSETS, _MARKS})
    state = {parameter: weights.converted(parameter, device, dtype) for parameter in names}
    absent = (
        parameter for parameter in empty if parameter.endswith(_BIASES) and parameter not in state
    )
    state |= {
        parameter: torch.zeros(empty[parameter].shape, device=device, dtype=dtype)
        for parameter in absent
    }
    head.load_state_dict({**state, _OFFSETS: offsets.to(device)}, strict=False, assign=True)
    if _OUTPUT not in state and _EMBEDDING in state and config.layer.tie_word_embeddings:
        head.lm_head.weight = head.embed_tokens.weight
    head.rotary = LlamaRotaryEmbedding(config.layer).to(
        device
    )  # its frequencies are float32 in every dtype
    return head.eval().requires_grad_(False)


def _read(files: Iterable[Path], name: str) -> dict[str, Tensor]:
    """Read all tensors on the CPU by name; pickles are not copied into memory where they can be
    mapped."""
    tensors: dict[str, Tensor] = {}
    for path in files:
        part = load_file(path) if path.suffix == ".safetensors" else _unpickled(path, name)
        if twice := sorted(tensors.keys() & part.keys()):
            raise ModelError(
                f"The weights of {name} hold {twice[0]} twice ({path.name} is the second file "
                "with it): keep the files of one save only."
            )
        tensors.update(part)
    return tensors


def _unpickled(path: Path, name: str) -> dict[str, Tensor]:
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
        f"{path.name} of {name} is damaged or contains objects other than tensors, which could "
        "run code, so it was not loaded: save the weights as safetensors."
    )


class _Weights(NamedTuple):
    """Tensors by their parameter in the head's state, and t2d, each with its name in the file."""

    by_parameter: Mapping[str, tuple[str, Tensor]]
    name: str  # of the head

    def get(self, parameter: str) -> Tensor | None:
        return self.by_parameter[parameter][1] if parameter in self.by_parameter else None

    def check(self, head: Eagle3Head, config: HeadConfig) -> None:
        """Raises ModelError for tensors that are missing, have another shape, or are not plain
        numbers."""
        wanted = {parameter: list(tensor.shape) for parameter, tensor in head.state_dict().items()}
        for parameter, shape in {**wanted, _MARKS: [config.target_vocabulary]}.items():
            if parameter in self.by_parameter:
                self._check_form(parameter, shape)
            elif parameter in (_OUTPUT, _OFFSETS):
                if config.draft_vocabulary != config.target_vocabulary:
                    raise self.refusal(
                        f"lack {parameter} for a draft vocabulary of {config.draft_vocabulary} "
                        f"ids, the target's being {config.target_vocabulary}"
                    )
            elif parameter not in (_EMBEDDING, _MARKS) and not parameter.endswith(_BIASES):
                raise self.refusal(f"lack {aliases(parameter)[0]} {shape}")

    def _check_form(self, parameter: str, shape: list[int]) -> None:
        name, tensor = self.by_parameter[parameter]
        if list(tensor.shape) != shape:
            raise self.refusal(f"have {name} of the shape {list(tensor.shape)}, not {shape}")
        if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_complex():
            raise self.refusal(f"have {name} in a form that is not plain numbers")
        if parameter not in (_OFFSETS, _MARKS) and not tensor.is_floating_point():
            raise self.refusal(f"have {name} as {tensor.dtype}, not as floating point numbers")

    def converted(self, parameter: str, device: torch.device, dtype: torch.dtype) -> Tensor:
        """Return a copy, since the file may be mapped."""
        name, stored = self.by_parameter[parameter]
        tensor = stored.detach().to(device, dtype, copy=True).contiguous()
        if not torch.isfinite(tensor).all():
            raise self.refusal(f"have values in {name} that are not finite as {dtype}")
        return tensor

    def refusal(self, reason: str) -> ModelError:
        return ModelError(
            f"The weights of the EAGLE-3 head {self.name} {reason}: choose a head whose files fit "
            "its config.json and the target, or fetch it again."
        )


def _by_parameter(
    tensors: Mapping[str, Tensor], head: Eagle3Head, name: str
) -> dict[str, tuple[str, Tensor]]:
    """Tensors by parameter, from the names of either family, with or without ``model.``; unknown
    and repeated ones are refused."""
    known = {alias: parameter for parameter in head.state_dict() for alias in aliases(parameter)}
    known |= {_MARKS: _MARKS, **{old: new for old, new in _OLD_NAMES.items() if new in known}}
    by_parameter: dict[str, tuple[str, Tensor]] = {}
    for alias, tensor in tensors.items():
        plain = alias.removeprefix("model.")
        if plain.rpartition(".")[2] == "inv_freq":
            continue  # rotary frequencies, which follow from the configuration
        parameter = known.get(plain)
        if parameter is None:
            raise ModelError(
                f"The weights of {name} have a tensor {alias} {list(tensor.shape)}, which no "
                "EAGLE-3 head described by its config.json has: choose another head, or correct "
                "config.json."
            )
        if parameter in by_parameter:
            raise ModelError(
                f"The weights of {name} have {alias} and {by_parameter[parameter][0]}, which mean "
                "the same: keep one of them."
            )
        by_parameter[parameter] = (alias, tensor)
    return by_parameter


def aliases(parameter: str) -> list[str]:
    """Return the names of a parameter in both families: ``layer.q_proj.weight`` is
    ``midlayer.self_attn.q_proj.weight``, for example."""
    parameter = re.sub(r"^layer\.([qkvo]_)", r"layer.self_attn.\1", parameter)
    return [re.sub(r"^layer\.", prefix, parameter) for prefix in _LAYER]


def _offsets(weights: _Weights, config: HeadConfig) -> Tensor:
    """Return d2t [D], checked: draft ids map to distinct target ids, and t2d marks exactly these."""
    stored = weights.get(_OFFSETS)
    if stored is None:
        stored = torch.zeros(config.draft_vocabulary, dtype=torch.long)
    if stored.is_floating_point() or stored.dtype == torch.bool:
        raise weights.refusal(f"have d2t as {stored.dtype}, not as integers")
    offsets = stored.to(torch.long, copy=True)
    draft_ids: dict[int, int] = {}  # by the target's id
    for draft, index in enumerate((torch.arange(config.draft_vocabulary) + offsets).tolist()):
        if not 0 <= index < config.target_vocabulary:
            raise weights.refusal(
                f"have in d2t, for draft id {draft}, the target's id {index}, not one of 0 to "
                f"{config.target_vocabulary - 1}"
            )
        if (first := draft_ids.setdefault(index, draft)) != draft:
            raise weights.refusal(
                f"have in d2t the target's id {index} for draft ids {first} and {draft}, not for "
                "one"
            )
    marks = weights.get(_MARKS)
    if marks is None:
        return offsets
    marked = set((marks != 0).nonzero().flatten().tolist())
    if len(marked) != len(draft_ids):
        raise weights.refusal(
            f"have in t2d {len(marked)} ids of the target, but in d2t {len(draft_ids)}"
        )
    for index, draft in draft_ids.items():
        if index not in marked:
            raise weights.refusal(
                f"have in d2t the target's id {index} for draft id {draft}, but t2d does not mark "
                "it"
            )
    return offsets


def _borrow(
    head: Eagle3Head, weights: _Weights, target: PreTrainedModel, table: nn.Embedding
) -> None:
    """Uses the target's embeddings where the head has none."""
    wanted, there = list(head.embed_tokens.weight.shape), list(table.weight.shape)
    if _EMBEDDING not in weights.by_parameter:
        if there != wanted:
            raise weights.refusal(
                f"lack {_EMBEDDING} {wanted}, and the target's is of the shape {there}"
            )
        head.embed_tokens = table
    if _OUTPUT in weights.by_parameter or (
        _EMBEDDING in weights.by_parameter and head.config.layer.tie_word_embeddings
    ):
        return
    output = target.get_output_embeddings()
    if not isinstance(output, nn.Linear) or list(output.weight.shape) != wanted:
        raise weights.refusal(f"lack {_OUTPUT} {wanted}, and the target has none of this shape")
    head.lm_head = output
