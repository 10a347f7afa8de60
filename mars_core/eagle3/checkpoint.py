"""An EAGLE-3 head from its files, in the tensor names of both families; what it lacks by design comes from the target.

Every tensor is looked at before the head is built: unknown, missing, misshapen and non-finite ones are refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from mars_core.eagle3 import tensors  # a module, not its names: see mars_core.models.eagle
from mars_core.eagle3.head import Eagle3Head, HeadConfig
from mars_core.models.errors import ModelError

_LAYER = ("midlayer.", "layers.0.")  # EAGLE's and speculators' names for the only layer
_OLD_NAMES = {"aux_norm_low.weight": "fc_norm.0.weight", "aux_norm_mid.weight": "fc_norm.1.weight",
              "aux_norm_high.weight": "fc_norm.2.weight"}  # fmt: skip
# Left out although attention_bias is set: EAGLE's own code has none, Qwen2 has no output bias.
_BIASES = ("q_proj.bias", "k_proj.bias", "v_proj.bias", "o_proj.bias")
_EMBEDDING, _OUTPUT, _OFFSETS, _MARKS = "embed_tokens.weight", "lm_head.weight", "d2t", "t2d"


def load_head(folder: Path, config: HeadConfig, target: PreTrainedModel, name: str = "") -> Eagle3Head:
    """The head in ``folder``, in evaluation mode, on the device of ``target``'s embedding and in its dtype.

    An absent input embedding is ``target``'s own module; so is the output embedding, where the vocabularies are the same.
    ``name`` is for messages (the folder's, if empty). Raises ModelError.
    """
    name = name or str(folder)
    with torch.device("meta"):
        head = Eagle3Head(config)
    weights = _Weights(_placed(tensors.read_tensors(tensors.weight_files(folder, name), name), head, name), name)
    weights.check(head, config)
    offsets = _offsets(weights, config)
    table = cast(nn.Embedding, target.get_input_embeddings())
    device, dtype = table.weight.device, target.dtype
    if device.type == "meta":
        raise ModelError(
            f"The target of {name} does not fit on one device, so its embedding is not at hand: choose a smaller target "
            "or dtype."
        )
    _borrow(head, weights, target, table)
    own = weights.places.keys() - {_OFFSETS, _MARKS}
    state = {place: weights.converted(place, device, dtype) for place in sorted(own)}
    state |= _zero_biases(head, state, device, dtype)
    head.load_state_dict({**state, _OFFSETS: offsets.to(device)}, strict=False, assign=True)
    if _OUTPUT not in weights.places and _EMBEDDING in weights.places and config.layer.tie_word_embeddings:
        head.lm_head.weight = head.embed_tokens.weight
    head.rotary = LlamaRotaryEmbedding(config.layer).to(device)  # its frequencies are float32 in every dtype
    return head.eval().requires_grad_(False)


@dataclass(frozen=True, slots=True)
class _Weights:
    """Tensors by their place in the head's state, and t2d, each with the name that it has in the file."""

    places: Mapping[str, tuple[str, Tensor]]
    name: str

    def get(self, place: str) -> Tensor | None:
        return self.places[place][1] if place in self.places else None

    def check(self, head: Eagle3Head, config: HeadConfig) -> None:
        """Refuses what is missing, has another shape, or is not plain numbers."""
        wanted = {place: list(tensor.shape) for place, tensor in head.state_dict().items()}
        sizes = (config.draft_vocabulary, config.target_vocabulary)
        for place, shape in {**wanted, _MARKS: [config.target_vocabulary]}.items():
            tensor = self.get(place)
            if tensor is not None:
                self._check_form(place, tensor, shape)
            elif place in (_OUTPUT, _OFFSETS):
                if sizes[0] != sizes[1]:
                    raise self.refusal(
                        f"lack {place} for a draft vocabulary of {sizes[0]} ids, the target's being {sizes[1]}"
                    )
            elif place not in (_EMBEDDING, _MARKS) and not place.endswith(_BIASES):
                raise self.refusal(f"lack {_aliases(place)[0]} {shape}")

    def _check_form(self, place: str, tensor: Tensor, shape: list[int]) -> None:
        said = self.places[place][0]
        if list(tensor.shape) != shape:
            raise self.refusal(f"have {said} of the shape {list(tensor.shape)}, not {shape}")
        if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_complex():
            raise self.refusal(f"have {said} in a form that is not plain numbers")
        if place not in (_OFFSETS, _MARKS) and not tensor.is_floating_point():
            raise self.refusal(f"have {said} as {tensor.dtype}, not as floating point numbers")

    def converted(self, place: str, device: torch.device, dtype: torch.dtype) -> Tensor:
        """A copy, since the file may be mapped."""
        said, stored = self.places[place]
        tensor = stored.detach().to(device, dtype, copy=True).contiguous()
        if not torch.isfinite(tensor).all():
            raise self.refusal(f"have values in {said} that are not finite as {dtype}")
        return tensor

    def refusal(self, reason: str) -> ModelError:
        return ModelError(
            f"The weights of the EAGLE-3 head {self.name} {reason}: choose a head whose files fit its config.json and the "
            "target, or fetch it again."
        )


def _placed(found: Mapping[str, Tensor], head: Eagle3Head, name: str) -> dict[str, tuple[str, Tensor]]:
    """Tensors by place, from the names of either family, with or without ``model.``; unknown and repeated ones are refused."""
    known = {alias: place for place in head.state_dict() for alias in _aliases(place)}
    known |= {_MARKS: _MARKS, **{old: new for old, new in _OLD_NAMES.items() if new in known}}
    placed: dict[str, tuple[str, Tensor]] = {}
    for said, tensor in found.items():
        plain = said.removeprefix("model.")
        if plain.rpartition(".")[2] == "inv_freq":
            continue  # rotary frequencies, which follow from the configuration
        place = known.get(plain)
        if place is None:
            raise ModelError(
                f"The weights of {name} have a tensor {said} {list(tensor.shape)}, which no EAGLE-3 head described by its "
                "config.json has: choose another head, or correct config.json."
            )
        if place in placed:
            raise ModelError(
                f"The weights of {name} have {said} and {placed[place][0]}, which mean the same: keep one of them."
            )
        placed[place] = (said, tensor)
    return placed


def _aliases(place: str) -> list[str]:
    """What the families call a parameter: ``layer.q_proj.weight`` is ``midlayer.self_attn.q_proj.weight``, for example."""
    if not place.startswith("layer."):
        return [place]
    inner = place.removeprefix("layer.")
    if inner.startswith(("q_", "k_", "v_", "o_")):
        inner = f"self_attn.{inner}"
    return [prefix + inner for prefix in _LAYER]


def _offsets(weights: _Weights, config: HeadConfig) -> Tensor:
    """d2t [D], checked: every draft id stands for one id of the target's, no two for the same, and t2d marks just these."""
    stored = weights.get(_OFFSETS)
    if stored is None:
        offsets = torch.zeros(config.draft_vocabulary, dtype=torch.long)
    elif stored.is_floating_point() or stored.dtype == torch.bool:
        raise weights.refusal(f"have d2t as {stored.dtype}, not as whole numbers")
    else:
        offsets = stored.to(torch.long, copy=True)
    ids = torch.arange(config.draft_vocabulary) + offsets
    outside = ((ids < 0) | (ids >= config.target_vocabulary)).nonzero().flatten()
    if len(outside):
        draft = int(outside[0])
        raise weights.refusal(
            f"have in d2t, for draft id {draft}, the target's id {int(ids[draft])}, not one of 0 to "
            f"{config.target_vocabulary - 1}"
        )
    first = torch.full((config.target_vocabulary,), len(ids)).scatter_reduce(0, ids, torch.arange(len(ids)), "amin")
    repeated = (first[ids] != torch.arange(len(ids))).nonzero().flatten()
    if len(repeated):
        draft = int(repeated[0])
        raise weights.refusal(
            f"have in d2t the target's id {int(ids[draft])} for draft ids {int(first[ids[draft]])} and {draft}, not for one"
        )
    marks = weights.get(_MARKS)
    if marks is not None:
        _check_marks(weights, marks != 0, ids)
    return offsets


def _check_marks(weights: _Weights, marks: Tensor, ids: Tensor) -> None:
    """``marks`` [V] against the target's ids [D] that d2t gives."""
    if int(marks.sum()) != len(ids):
        raise weights.refusal(f"have in t2d {int(marks.sum())} ids of the target, but in d2t {len(ids)}")
    unmarked = (~marks[ids]).nonzero().flatten()
    if len(unmarked):
        draft = int(unmarked[0])
        raise weights.refusal(
            f"have in d2t the target's id {int(ids[draft])} for draft id {draft}, but t2d does not mark it"
        )


def _borrow(head: Eagle3Head, weights: _Weights, target: PreTrainedModel, table: nn.Embedding) -> None:
    """Puts the target's own embeddings where the head has none."""
    wanted = tuple(head.embed_tokens.weight.shape)
    if _EMBEDDING not in weights.places:
        if tuple(table.weight.shape) != wanted:
            raise weights.refusal(
                f"lack {_EMBEDDING} {list(wanted)}, and the target's is of the shape {list(table.weight.shape)}"
            )
        head.embed_tokens = table
    if _OUTPUT in weights.places or (_EMBEDDING in weights.places and head.config.layer.tie_word_embeddings):
        return
    output = target.get_output_embeddings()
    if not isinstance(output, nn.Linear) or tuple(output.weight.shape) != wanted:
        raise weights.refusal(f"lack {_OUTPUT} {list(wanted)}, and the target has none of this shape to lend")
    head.lm_head = output


def _zero_biases(
    head: Eagle3Head, state: Mapping[str, Tensor], device: torch.device, dtype: torch.dtype
) -> dict[str, Tensor]:
    """Biases that the file leaves out."""
    absent = (place for place in head.state_dict() if place.endswith("_proj.bias") and place not in state)
    return {place: torch.zeros(head.state_dict()[place].shape, device=device, dtype=dtype) for place in absent}
