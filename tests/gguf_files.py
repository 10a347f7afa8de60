"""Small Llama models as GGUF files, made by the writer of the package gguf."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Kind
from gguf.quants import quantize
from transformers import LlamaConfig, LlamaForCausalLM
from transformers import modeling_gguf_pytorch_utils as reader
from transformers.convert_slow_tokenizer import bytes_to_unicode

TOKENS = ("<unk>", "<s>", "</s>", *bytes_to_unicode().values(), "ab")
Values = np.ndarray[Any, Any]
TURNED = ("q_proj.weight", "k_proj.weight")  # of the architecture llama


def tiny_llama(vocabulary: int = len(TOKENS)) -> LlamaForCausalLM:
    """Seeded; one of bytes."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=256,
        initializer_range=0.2,
        tie_word_embeddings=True,
    )
    return LlamaForCausalLM(config).eval()


def write_gguf(
    path: Path,
    *,
    kind: str = "F32",
    tokens: tuple[str, ...] = (),
    architecture: str = "llama",
    **others: Any,
) -> Path:
    """``tiny_llama`` in ``path``, its matrices of ``kind``; ``others`` as of ``write_model``."""

    def quantised(_name: str, values: Values) -> tuple[Values, Kind]:
        form = Kind[kind if values.ndim == 2 else "F32"]
        return quantize(values, form), form

    model = tiny_llama(len(TOKENS) + len(tokens))
    return write_model(path, model, architecture, quantised, tokens=tokens, **others)


def write_model(
    path: Path,
    model: Any,
    architecture: str,
    quantised: Callable[[str, Values], tuple[Values, Kind]],
    *,
    numbers: Mapping[str, Any] = {},
    texts: Mapping[str, Any] = {},
    tokens: tuple[str, ...] = (),
    without: str = "",
    more: str = "",
) -> Path:
    """``quantised``: what the file has of a parameter, and its kind; ``numbers``, ``texts``: instead of
    those of the file, by key; ``tokens``: ordinary ones, after the others; ``without``, ``more``: a
    tensor that is left out, or added."""
    writer, config = gguf.GGUFWriter(path, architecture), model.config
    facts = {
        "block_count": config.num_hidden_layers,
        "context_length": config.max_position_embeddings,
        "embedding_length": config.hidden_size,
        "feed_forward_length": config.intermediate_size,
        "attention.head_count": config.num_attention_heads,
        "attention.head_count_kv": config.num_key_value_heads,
        "vocab_size": config.vocab_size,
    }
    written = {f"{architecture}.{key}": value for key, value in facts.items()} | dict(numbers)
    for key, value in written.items():
        if key not in texts:
            writer.add_uint32(key, value)
    for key, value in texts.items():
        (writer.add_bool if isinstance(value, bool) else writer.add_string)(key, value)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    writer.add_tokenizer_model("gpt2")  # of bytes
    writer.add_token_list((*TOKENS, *tokens))
    writer.add_token_types([3] * 3 + [1] * (len(TOKENS) + len(tokens) - 3))
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    of_file: Any = reader.get_gguf_hf_weights_map
    names = {name: stored for stored, name in of_file(model, reader.TensorProcessor()).items()}
    for name, parameter in model.named_parameters():
        values = parameter.detach().numpy()
        if architecture == "llama" and name.endswith(TURNED):  # halves of a head in turn
            half = config.hidden_size // config.num_attention_heads // 2
            halves = values.reshape(-1, 2, half, values.shape[-1])
            values = halves.swapaxes(1, 2).reshape(values.shape)
        data, kind = quantised(name, np.ascontiguousarray(values))
        if names[name] != without:
            writer.add_tensor(names[name], data, raw_dtype=kind)
    if more:
        writer.add_tensor(more, np.ones(4, np.float32))
    write(writer)
    return path


def write(writer: gguf.GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
