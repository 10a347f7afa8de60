"""The EAGLE-3 head for training: with gradients, and with chains that feed the head's output
back.

Shapes: B batch, N entries, R chains, H width of the head, T width of the target, d head size.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from mars_core.eagle3.head import Eagle3Head


def project(
    head: Eagle3Head, ids: Tensor, hidden: Tensor, positions: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Entries ids [B, N], hidden [B, N, H], positions [B or 1, N] → residual [B, N, H]; queries,
    keys, values [B, heads, N, d]."""
    layer = head.layer
    normed = layer.hidden_norm(hidden)
    both = torch.cat([layer.input_layernorm(head.embed_tokens(ids)), normed], -1)
    q, k, v = (
        projection(both).unflatten(-1, (-1, layer.head_dim)).transpose(1, 2)
        for projection in (layer.q_proj, layer.k_proj, layer.v_proj)
    )
    if layer.q_norm is not None and layer.k_norm is not None:
        q, k = layer.q_norm(q), layer.k_norm(k)
    q, k = apply_rotary_pos_emb(q, k, *head.rotary(hidden, positions))
    return normed if layer.norm_before_residual else hidden, q, k, v


def finish(head: Eagle3Head, residual: Tensor, attended: Tensor) -> tuple[Tensor, Tensor]:
    """Attention output [B, heads, N, d] → hidden states to feed back and normed ones, which
    ``lm_head`` reads, both [B, N, H]."""
    layer = head.layer
    hidden = residual + layer.o_proj(attended.transpose(1, 2).flatten(-2))
    hidden = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
    normed = head.norm(hidden)
    return (normed if head.config.norm_output else hidden), normed


def unroll(
    head: Eagle3Head, ids: Tensor, features: Tensor, anchors: Tensor, steps: int
) -> list[Tensor]:
    """Normed states of each step, for ``lm_head``: [B, N, H] from the target's features, then [B,
    R, H] with the head's output fed back.

    ids [B, N]: the token of each entry (the one after its features [B, N, layers · T]); anchors [B,
    R]: entries that a chain continues, < N − steps + 1. Step s of anchor t reads token ids[t + s],
    at position t + s, and sees the entries of the prefix up to t and those of its chain, as
    drafting does.
    """
    positions = torch.arange(ids.shape[1], device=ids.device)[None]
    residual, queries, keys, values = project(head, ids, head.fuse(features), positions)
    attended = nn.functional.scaled_dot_product_attention(
        queries, keys, values, is_causal=True, enable_gqa=True
    )
    hidden, normed = finish(head, residual, attended)
    hidden = hidden.gather(1, anchors[..., None].expand(-1, -1, hidden.shape[-1]))
    outputs = [normed]
    visible = positions[:, None] <= anchors[..., None]  # by a chain: entries up to its anchor
    alone = torch.eye(anchors.shape[1], dtype=torch.bool, device=ids.device).expand(
        len(ids), -1, -1
    )
    for step in range(1, steps):
        following = anchors + step
        residual, queries, key, value = project(head, ids.gather(1, following), hidden, following)
        keys, values = torch.cat([keys, key], 2), torch.cat([values, value], 2)
        visible = torch.cat([visible, alone], -1)  # and its own
        attended = nn.functional.scaled_dot_product_attention(
            queries, keys, values, attn_mask=visible[:, None], enable_gqa=True
        )
        hidden, normed = finish(head, residual, attended)
        outputs.append(normed)
    return outputs
