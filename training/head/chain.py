"""The EAGLE-3 head of this recipe for training: with gradients, and with chains that feed the head's
output back. It has as many key heads as heads, no norms in attention and no further residuals.

Shapes: B batch, N entries, R chains, H width of the head, T width of the target, d head size.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from mars_core.eagle3.head import Eagle3Head


def project(
    head: Eagle3Head, ids: Tensor, hidden: Tensor, positions: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Entries ids [B, N], hidden [B, N, H], positions [B or 1, N] → queries, keys, values [B,
    heads, N, d]."""
    layer = head.layer
    embedded = layer.input_layernorm(head.embed_tokens(ids))
    both = torch.cat([embedded, layer.hidden_norm(hidden)], -1)
    q, k, v = (
        projection(both).unflatten(-1, (-1, layer.head_dim)).transpose(1, 2)
        for projection in (layer.q_proj, layer.k_proj, layer.v_proj)
    )
    q, k = apply_rotary_pos_emb(q, k, *head.rotary(hidden, positions))
    return q, k, v


def finish(head: Eagle3Head, hidden: Tensor, attended: Tensor) -> tuple[Tensor, Tensor]:
    """Hidden states [B, N, H] and attention output [B, heads, N, d] → hidden states to feed back and normed ones, which
    ``lm_head`` reads, both [B, N, H]."""
    layer = head.layer
    hidden = hidden + layer.o_proj(attended.transpose(1, 2).flatten(-2))
    hidden = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
    return hidden, head.norm(hidden)


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
    fused = head.fuse(features)
    queries, keys, values = project(head, ids, fused, positions)
    attended = nn.functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
    hidden, normed = finish(head, fused, attended)
    hidden = hidden.gather(1, anchors[..., None].expand(-1, -1, hidden.shape[-1]))
    outputs, chain_keys, chain_values = [normed], list[Tensor](), list[Tensor]()
    visible = positions[:, None] <= anchors[..., None]
    for step in range(1, steps):
        following = anchors + step
        queries, key, value = project(head, ids.gather(1, following), hidden, following)
        chain_keys.append(key)
        chain_values.append(value)
        attended = _attend(
            queries,
            keys,
            values,
            visible,
            torch.stack(chain_keys, -2),
            torch.stack(chain_values, -2),
        )
        hidden, normed = finish(head, hidden, attended)
        outputs.append(normed)
    return outputs


def _attend(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    visible: Tensor,
    chain_keys: Tensor,
    chain_values: Tensor,
) -> Tensor:
    """queries [B, heads, R, d] over keys [B, heads, N, d] where visible [B, R, N], and over
    chain_keys [B, heads, R, s, d]."""
    queries, length = queries * queries.shape[-1] ** -0.5, keys.shape[2]
    prefix = (queries @ keys.mT).float().masked_fill(~visible[:, None], float("-inf"))
    chain = (queries[..., None, :] * chain_keys).sum(-1).float()  # [B, heads, R, s]
    shares = torch.cat([prefix, chain], -1).softmax(-1).to(values.dtype)
    summed: Tensor = shares[..., :length] @ values
    return summed + (shares[..., length:, None] * chain_values).sum(-2)
