"""Models with weights of 4 bits, from the GGUF file that lies beside their configuration.

Only weights are taken from the file: configuration and tokenizer are those of the folder, in
Hugging Face's format. What is not of 4 bits is read as float32. The reader of the library gguf
takes seconds for the vocabulary, which this one skips.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import torch
from accelerate import init_empty_weights
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, GenerationConfig, PreTrainedConfig, PreTrainedModel

from mars_core.decoder.linear import Int4, StoredLinear, multiplies_int4
from mars_core.models.errors import ModelError
from mars_core.models.source import SOURCE

# Architectures, and whether the rows of q and k stand in another order than in Hugging Face's
# format.
_ARCHITECTURES = {"llama": True, "qwen2": False, "qwen3": False}
_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "model.layers": "blk",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.o_proj": "attn_output",
    "self_attn.": "attn_",
    "mlp.": "ffn_",
    "_proj": "",
}
_SCALARS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
_STRING, _ARRAY = 8, 9
_LONGEST = 2**20  # bytes of a name
_INT4 = (2, 3)  # Q4_0, Q4_1


class Stored(NamedTuple):
    """A tensor of a file."""

    kind: int  # of its blocks
    shape: tuple[int, ...]
    data: Tensor  # uint8

    def blocks(self) -> Tensor:
        """Return uint8 [rows, blocks of a row, bytes of a block]."""
        return self.data.view(math.prod(self.shape[:-1]), -1, _KINDS[self.kind].bytes)

    def turned(self, size: int) -> Stored:
        """Return it with the rows of every head of ``size`` as halves, not in turn."""
        rows = self.data.view(-1, size // 2, 2, len(self.data) // self.shape[0])
        return self._replace(data=rows.transpose(1, 2).flatten())

    def numbers(self) -> Tensor:
        """Return float32 [*shape]."""
        return _KINDS[self.kind].read(self.blocks()).reshape(self.shape)

    def int4(self) -> Int4:
        """Convert a weight of 4 bits."""
        return _int4(self.blocks())


class _Kind(NamedTuple):
    """Blocks of numbers."""

    numbers: int
    bytes: int
    read: Callable[[Tensor], Tensor]  # blocks [rows, n, bytes] → float32 with these numbers


def _floats(blocks: Tensor, dtype: torch.dtype = torch.float16) -> Tensor:
    """Return a copy: the file stays open as long as a tensor is a part of it."""
    return blocks.contiguous().view(dtype).to(torch.float32, copy=True)


def _int4(blocks: Tensor) -> Int4:
    """Convert 4 bits: the first 16 numbers are the low halves of the bytes."""
    factors, pairs = _floats(blocks[..., :-16]), blocks[..., -16:]
    levels, scales = torch.cat((pairs & 15, pairs >> 4), -1).flatten(1), factors[..., 0]
    return Int4(levels, scales, factors[..., 1] if factors.shape[-1] == 2 else scales * -8)


def _q8(blocks: Tensor) -> Tensor:
    return torch.mul(_floats(blocks[..., :2]), blocks[..., 2:].view(torch.int8))


def _q6(blocks: Tensor) -> Tensor:
    low, high, scales, scale = blocks.split((128, 64, 16, 2), -1)
    low = torch.stack([low.unflatten(-1, (2, 64)) >> shift & 15 for shift in (0, 4)], -2)
    high = torch.stack([high.unflatten(-1, (2, 32)) >> shift & 3 for shift in (0, 2, 4, 6)], -2)
    levels = (low.flatten(-3) | high.flatten(-3) << 4).to(torch.int8) - 32
    factors = _floats(scale) * scales.contiguous().view(torch.int8)
    return torch.mul(factors[..., None], levels.unflatten(-1, (16, 16)))


_KINDS = {
    0: _Kind(1, 4, partial(_floats, dtype=torch.float32)),
    1: _Kind(1, 2, _floats),
    2: _Kind(32, 18, lambda blocks: _int4(blocks).numbers()),
    3: _Kind(32, 20, lambda blocks: _int4(blocks).numbers()),
    8: _Kind(32, 34, _q8),
    14: _Kind(256, 210, _q6),
    30: _Kind(1, 2, partial(_floats, dtype=torch.bfloat16)),
}


def int4_lacks(folder: Path) -> str:
    """Return why ``read_int4`` cannot read ``folder``, or this processor multiply its weights;
    empty where they can."""
    if not multiplies_int4():
        return "that takes an x86 processor with AVX2"
    if not (folder / SOURCE).is_file():
        return "that takes a GGUF file with weights in Q4_0 or Q4_1"
    try:
        architecture, stored, kinds = read_file(folder / SOURCE)
    except ModelError as error:
        return str(error).rstrip(".")
    if architecture not in _ARCHITECTURES:
        return (
            f"its file is of the architecture {architecture[:40]!a}, and int4 is for "
            f"{', '.join(_ARCHITECTURES)}"
        )
    if any(each.kind in _INT4 for each in stored.values()):
        return ""
    return f"its file has tensors in {', '.join(kinds)}, and none in Q4_0 or Q4_1"


def read_int4(folder: Path, config: PreTrainedConfig, name: str) -> PreTrainedModel:
    """Return the model with ``config`` from the file in ``folder``; its layers are those of the
    file until it is prepared. Raises ModelError."""
    architecture, stored, _ = read_file(folder / SOURCE)
    build: Any = AutoModelForCausalLM.from_config
    with init_empty_weights(include_buffers=False):
        model: PreTrainedModel = build(config, dtype=torch.float32, trust_remote_code=False)
    output: Any = model.get_output_embeddings()
    tied = "output.weight" not in stored
    for path, module in list(model.named_modules()):
        if tied and module is output:
            continue
        for leaf, empty in list(module.named_parameters(recurse=False)):
            wanted, shape = _name(f"{path}.{leaf}"), tuple(empty.shape)
            if wanted not in stored or stored[wanted].shape != shape:
                raise ModelError(
                    f"{SOURCE} of {name} does not fit its config.json (no {wanted} of "
                    f"{' × '.join(map(str, shape))} numbers): convert it again."
                )
            tensor = stored[wanted]
            if _ARCHITECTURES[architecture] and path.endswith(("q_proj", "k_proj")):
                tensor = tensor.turned(
                    getattr(config, "head_dim", None)
                    or config.hidden_size // config.num_attention_heads
                )
            fits = (
                leaf == "weight"
                and isinstance(module, nn.Linear)
                and module is not output
                and not shape[0] % 16
            )
            if tensor.kind in _INT4 and fits:
                module = StoredLinear(tensor.int4, module)
                model.set_submodule(path, module)
            else:
                setattr(module, leaf, nn.Parameter(tensor.numbers(), requires_grad=False))
    if tied:
        output.weight = model.get_input_embeddings().weight
    if (folder / "generation_config.json").is_file():
        model.generation_config = GenerationConfig.from_pretrained(folder)
    model.eval()
    return model


def _name(path: str) -> str:
    """Return the file's name of a parameter."""
    for ours, theirs in _NAMES.items():
        path = path.replace(ours, theirs)
    return path


def read_file(path: Path) -> tuple[str, Mapping[str, Stored], tuple[str, ...]]:
    """Return the architecture, the tensors of known kinds, which stay in the file until they are
    used, and the names of all kinds. Raises ModelError."""
    try:
        with path.open("rb") as file:
            magic, version, count, pairs = _unpack(file, "4sIQQ")
            if magic != b"GGUF" or version not in (2, 3):
                raise ValueError
            facts = {_string(file): _value(file, *_unpack(file, "I")) for _ in range(pairs)}
            headers = {}
            for _ in range(count):
                name, (dimensions,) = _string(file), _unpack(file, "I")
                shape = _unpack(file, f"{min(dimensions, 8)}Q")[::-1]
                headers[name] = (shape, *_unpack(file, "IQ"))
            begin = file.tell()
        step = facts.get("general.alignment") or 32
        begin = -(-begin // step) * step
        data = torch.from_file(str(path), size=path.stat().st_size, dtype=torch.uint8)
        return (
            str(facts.get("general.architecture")),
            {
                name: Stored(kind, shape, _part(data, begin + at, shape, _KINDS[kind]))
                for name, (shape, kind, at) in headers.items()
                if kind in _KINDS
            },
            _kind_names(kind for _, kind, _ in headers.values()),
        )
    except (
        OSError,
        ValueError,
        TypeError,
        KeyError,
        struct.error,
        RuntimeError,
        OverflowError,
    ) as error:
        raise ModelError(
            f"{path} is damaged or not a GGUF file: convert or fetch it again."
        ) from error


def _kind_names(kinds: Iterable[int]) -> tuple[str, ...]:
    from gguf import GGMLQuantizationType

    known = {each.value: each.name for each in GGMLQuantizationType}
    return tuple(sorted({known.get(kind, f"kind {kind}") for kind in kinds}))


def _part(data: Tensor, begin: int, shape: tuple[int, ...], kind: _Kind) -> Tensor:
    size = math.prod(shape) // kind.numbers * kind.bytes
    if shape[-1] % kind.numbers or begin + size > len(data):
        raise ValueError
    return data[begin : begin + size]


def _unpack(file: BinaryIO, form: str) -> tuple[Any, ...]:
    return struct.unpack("<" + form, file.read(struct.calcsize("<" + form)))


def _string(file: BinaryIO) -> str:
    (length,) = _unpack(file, "Q")
    if length > _LONGEST:
        raise ValueError
    return file.read(length).decode(errors="replace")


def _value(file: BinaryIO, kind: int) -> Any:
    """Return a value of the file's metadata; arrays are skipped."""
    if kind in _SCALARS:
        return _unpack(file, _SCALARS[kind])[0]
    if kind == _STRING:
        return _string(file)
    if kind != _ARRAY:
        raise ValueError
    inner, count = _unpack(file, "IQ")
    if inner in _SCALARS:
        file.seek(count * struct.calcsize("<" + _SCALARS[inner]), 1)
        return None
    for _ in range(count):
        _value(file, inner)
    return None
