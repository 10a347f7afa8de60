"""An EAGLE-3 head: one decoder layer that reads the target's hidden states and the next token's embedding (2503.01840).

Entry i pairs the target's features at position i with the embedding of token i + 1 and predicts token i + 2. While drafting,
the head's own output stands in for features that the target has not computed yet. Shapes: B batch, N entries, H width of the
head, T width of the target, V target vocabulary, D draft vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaMLP, LlamaRMSNorm, LlamaRotaryEmbedding, apply_rotary_pos_emb


@dataclass(frozen=True, slots=True)
class HeadConfig:
    """``layer``: sizes, norms and rotary scaling of the decoder layer; ``taps``: layers whose *input* is read (0 is the first)."""

    layer: LlamaConfig
    target_hidden_size: int
    target_vocabulary: int
    draft_vocabulary: int
    taps: tuple[int, ...]
    norm_before_residual: bool = False  # the residual is taken after hidden_norm
    norm_before_fc: bool = False  # one norm over the concatenated taps
    fc_norm: bool = False  # one norm a tap
    norm_output: bool = False  # the fed-back hidden state is the one after the last norm
    qk_norm: bool = False  # queries and keys are normed head by head, as in Qwen3


class Eagle3Head(nn.Module):
    """``d2t`` [D] is added to a draft id to give the target's id. ``embed_tokens`` may be the target's own table."""

    d2t: Tensor

    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        layer, read = config.layer, len(config.taps) * config.target_hidden_size
        width: int = layer.hidden_size
        self.config = config
        self.embed_tokens = nn.Embedding(config.target_vocabulary, width)
        self.input_norm = LlamaRMSNorm(read, layer.rms_norm_eps) if config.norm_before_fc else None
        norms = [LlamaRMSNorm(config.target_hidden_size, layer.rms_norm_eps) for _ in config.taps]
        self.fc_norm = nn.ModuleList(norms) if config.fc_norm else None
        self.fc = nn.Linear(read, width, bias=False)
        self.layer = HeadLayer(config)
        self.norm = LlamaRMSNorm(width, layer.rms_norm_eps)
        self.lm_head = nn.Linear(width, config.draft_vocabulary, bias=False)
        self.rotary = LlamaRotaryEmbedding(layer)
        self.register_buffer("d2t", torch.zeros(config.draft_vocabulary, dtype=torch.long))

    def fuse(self, features: Tensor) -> Tensor:
        """The target's tapped hidden states, concatenated [..., taps · T], as the head's hidden state [..., H]."""
        if self.input_norm is not None:
            features = self.input_norm(features)
        if self.fc_norm is not None:
            parts = features.split(self.config.target_hidden_size, -1)
            features = torch.cat([norm(part) for norm, part in zip(self.fc_norm, parts, strict=True)], -1)
        fused: Tensor = self.fc(features)
        return fused

    def read(self, ids: Tensor, hidden: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Entries ids [B, N], hidden [B, N, H], positions [B or 1, N] → residual [B, N, H]; queries, keys, values
        [B, heads, N, head_dim]."""
        rotary = self.rotary(hidden, positions)
        return self.layer.project(self.embed_tokens(ids), hidden, rotary)

    def finish(self, residual: Tensor, attended: Tensor) -> tuple[Tensor, Tensor]:
        """Attention output [B, heads, N, head_dim] → hidden states to feed back [B, N, H] and draft logits [B, N, D]."""
        hidden = self.layer.finish(residual, attended)
        normed = self.norm(hidden)
        return (normed if self.config.norm_output else hidden), self.lm_head(normed)

    def target_ids(self, ids: Tensor) -> Tensor:
        """Draft ids as ids of the target's vocabulary."""
        return ids + self.d2t[ids]


class HeadLayer(nn.Module):
    """The decoder layer, whose queries, keys and values read [embedding, hidden state], width 2H."""

    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        layer = config.layer
        width: int = layer.hidden_size
        heads: int = layer.num_attention_heads
        self.norm_before_residual = config.norm_before_residual
        self.head_dim: int = layer.head_dim or width // heads
        self.kv_heads: int = layer.num_key_value_heads or heads
        self.input_layernorm = LlamaRMSNorm(width, layer.rms_norm_eps)
        self.hidden_norm = LlamaRMSNorm(width, layer.rms_norm_eps)
        self.post_attention_layernorm = LlamaRMSNorm(width, layer.rms_norm_eps)
        bias = bool(layer.attention_bias)
        self.q_proj = nn.Linear(2 * width, heads * self.head_dim, bias=bias)
        self.k_proj = nn.Linear(2 * width, self.kv_heads * self.head_dim, bias=bias)
        self.v_proj = nn.Linear(2 * width, self.kv_heads * self.head_dim, bias=bias)
        self.o_proj = nn.Linear(heads * self.head_dim, width, bias=bias)
        self.q_norm = LlamaRMSNorm(self.head_dim, layer.rms_norm_eps) if config.qk_norm else None
        self.k_norm = LlamaRMSNorm(self.head_dim, layer.rms_norm_eps) if config.qk_norm else None
        self.mlp = LlamaMLP(layer)

    def project(
        self, embedded: Tensor, hidden: Tensor, rotary: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Residual, queries, keys, values; rotary positions are applied."""
        normed = self.hidden_norm(hidden)
        residual = normed if self.norm_before_residual else hidden
        both = torch.cat([self.input_layernorm(embedded), normed], -1)
        q, k, v = (self._split(layer(both)) for layer in (self.q_proj, self.k_proj, self.v_proj))
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k = apply_rotary_pos_emb(q, k, *rotary)
        return residual, q, k, v

    def finish(self, residual: Tensor, attended: Tensor) -> Tensor:
        """Adds attention and the feed-forward block to the residual: [B, N, H]."""
        hidden = residual + self.o_proj(attended.transpose(1, 2).flatten(-2))
        output: Tensor = hidden + self.mlp(self.post_attention_layernorm(hidden))
        return output

    def _split(self, projected: Tensor) -> Tensor:
        """[B, N, heads · head_dim] → [B, heads, N, head_dim]."""
        return projected.view(*projected.shape[:-1], -1, self.head_dim).transpose(1, 2)
