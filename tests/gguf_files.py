"""Small Llama models as GGUF files, made by the writer of the package gguf."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gguf.quants import quantize
from transformers import LlamaConfig, LlamaForCausalLM
from transformers import modeling_gguf_pytorch_utils as reader
from transformers.convert_slow_tokenizer import bytes_to_unicode

TOKENS = ("<unk>", "<s>", "</s>", *bytes_to_unicode().values(), "ab")
WIDTH, HEADS = 32, 4
TURNED = ("q_proj.weight", "k_proj.weight")  # of the architecture llama


def tiny_llama(vocabulary: int = len(TOKENS)) -> LlamaForCausalLM:
    """Seeded; one of bytes."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=WIDTH,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        max_position_embeddings=256,
        initializer_range=0.2,
        tie_word_embeddings=True,
    )
    return LlamaForCausalLM(config).eval()


def write_gguf(
    path: Path,
    *,
    numbers: Mapping[str, Any] | None = None,
    texts: Mapping[str, Any] | None = None,
    tokens: tuple[str, ...] = (),
    kind: str = "F32",
    without: str = "",
    more: str = "",
    architecture: str = "llama",
) -> Path:
    """``tiny_llama`` in ``path``. ``numbers``, ``texts``: instead of those of the file, by key;
    ``tokens``: ordinary ones, after the others; ``kind``: of
    its matrices; ``without``, ``more``: a tensor that is left out, or added."""
    model = tiny_llama(len(TOKENS) + len(tokens))
    writer = gguf.GGUFWriter(path, architecture)
    keys_of = {
        "block_count": 2,
        "context_length": 256,
        "embedding_length": WIDTH,
        "feed_forward_length": 64,
        "attention.head_count": HEADS,
        "attention.head_count_kv": HEADS,
        "vocab_size": model.config.vocab_size,
    }
    for key, value in (
        {f"{architecture}.{key}": value for key, value in keys_of.items()} | dict(numbers or {})
    ).items():
        if key not in (texts or {}):
            writer.add_uint32(key, value)
    for key, value in (texts or {}).items():
        (writer.add_bool if isinstance(value, bool) else writer.add_string)(key, value)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(10000.0)
    tokenizer_facts(writer, tokens)
    names = names_in_files(model)
    for name, tensor in model.state_dict().items():
        values = tensor.numpy()
        if name.endswith(TURNED):
            values = turned(values, WIDTH // HEADS)
        stored = names[name]
        if stored in ("output.weight", without):
            continue
        form = gguf.GGMLQuantizationType[kind if values.ndim == 2 else "F32"]
        writer.add_tensor(stored, quantize(np.ascontiguousarray(values), form), raw_dtype=form)
    if more:
        writer.add_tensor(more, np.ones(4, np.float32))
    write(writer)
    return path


def tokenizer_facts(writer: gguf.GGUFWriter, more: tuple[str, ...] = ()) -> None:
    """Write the tokenizer of bytes."""
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list((*TOKENS, *more))
    writer.add_token_types([3] * 3 + [1] * (len(TOKENS) + len(more) - 3))
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)


def names_in_files(model: Any) -> dict[str, str]:
    """Return the names in GGUF files of a model's parameters."""
    of_file: Any = reader.get_gguf_hf_weights_map
    return {name: stored for stored, name in of_file(model, reader.TensorProcessor()).items()}


def turned(values: np.ndarray[Any, Any], size: int) -> np.ndarray[Any, Any]:
    """The rows of queries or keys with heads of ``size`` as GGUF has them, halves in turn."""
    return values.reshape(-1, 2, size // 2, values.shape[-1]).swapaxes(1, 2).reshape(values.shape)


def write(writer: gguf.GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
