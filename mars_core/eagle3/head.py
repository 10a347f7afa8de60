"""An EAGLE-3 head: one decoder layer that reads the target's hidden states and the next token's
embedding (2503.01840).

Entry i pairs the target's features at position i with the embedding of token i + 1 and predicts
token i + 2. While drafting, the head's output stands in for features that the target has not
computed yet. These modules store the weights and fuse the features; ``cache.py`` uses them for
decoding. Shapes: H width of the head, T width of the target, V target vocabulary, D draft
vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaMLP, LlamaRMSNorm, LlamaRotaryEmbedding


@dataclass(frozen=True, slots=True)
class HeadConfig:
    """``layer``: sizes, norms and rotary scaling of the decoder layer; ``feature_layers``: layers
    whose *input* is read (0 is the first)."""

    layer: LlamaConfig
    target_hidden_size: int
    target_vocabulary: int
    draft_vocabulary: int
    feature_layers: tuple[int, ...]
    norm_before_residual: bool = False  # the residual is taken after hidden_norm
    norm_before_fc: bool = False  # one norm over the concatenated layers
    fc_norm: bool = False  # one norm per tap
    norm_output: bool = False  # the fed-back hidden state is the one after the last norm
    qk_norm: bool = False  # queries and keys are normed head by head, as in Qwen3


class Eagle3Head(nn.Module):
    """``d2t`` [D] is added to a draft id to give the target's id. ``embed_tokens`` may be the
    target's table."""

    d2t: Tensor

    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        layer, read = config.layer, len(config.feature_layers) * config.target_hidden_size
        width: int = layer.hidden_size
        self.config = config
        self.embed_tokens = nn.Embedding(config.target_vocabulary, width)
        self.input_norm = LlamaRMSNorm(read, layer.rms_norm_eps) if config.norm_before_fc else None
        norms = [
            LlamaRMSNorm(config.target_hidden_size, layer.rms_norm_eps)
            for _ in config.feature_layers
        ]
        self.fc_norm = nn.ModuleList(norms) if config.fc_norm else None
        self.fc = nn.Linear(read, width, bias=False)
        self.layer = HeadLayer(config)
        self.norm = LlamaRMSNorm(width, layer.rms_norm_eps)
        self.lm_head = nn.Linear(width, config.draft_vocabulary, bias=False)
        self.rotary = LlamaRotaryEmbedding(layer)
        self.register_buffer("d2t", torch.zeros(config.draft_vocabulary, dtype=torch.long))

    def fuse(self, features: Tensor) -> Tensor:
        """Return the target's tapped hidden states, concatenated [..., layers · T], as the head's
        hidden state [..., H]."""
        if self.input_norm is not None:
            features = self.input_norm(features)
        if self.fc_norm is not None:
            parts = features.split(self.config.target_hidden_size, -1)
            features = torch.cat(
                [norm(part) for norm, part in zip(self.fc_norm, parts, strict=True)], -1
            )
        fused: Tensor = self.fc(features)
        return fused

    def target_ids(self, ids: Tensor) -> Tensor:
        """Draft ids as ids of the target's vocabulary."""
        return ids + self.d2t[ids]


class HeadLayer(nn.Module):
    """The weights of the decoder layer, whose queries, keys and values read [embedding, hidden
    state], width 2H."""

    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        layer = config.layer
        width, heads = int(layer.hidden_size), int(layer.num_attention_heads)
        bias, eps = bool(layer.attention_bias), layer.rms_norm_eps
        self.norm_before_residual = config.norm_before_residual
        self.head_dim: int = layer.head_dim or width // heads
        self.kv_heads: int = layer.num_key_value_heads or heads
        self.input_layernorm = LlamaRMSNorm(width, eps)
        self.hidden_norm = LlamaRMSNorm(width, eps)
        self.post_attention_layernorm = LlamaRMSNorm(width, eps)
        self.q_proj = nn.Linear(2 * width, heads * self.head_dim, bias=bias)
        self.k_proj = nn.Linear(2 * width, self.kv_heads * self.head_dim, bias=bias)
        self.v_proj = nn.Linear(2 * width, self.kv_heads * self.head_dim, bias=bias)
        self.o_proj = nn.Linear(heads * self.head_dim, width, bias=bias)
        self.q_norm = LlamaRMSNorm(self.head_dim, eps) if config.qk_norm else None
        self.k_norm = LlamaRMSNorm(self.head_dim, eps) if config.qk_norm else None
        self.mlp = LlamaMLP(layer)
