"""A decoder layer of the Llama family in few operations: fused projections, in-place rotation, one
attention call.

Replaces transformers' layers (same call, same cache protocol). Shapes: B batch, n tokens, H width,
d head size.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers.activations import SiLUActivation

from mars_core.decoder.linear import PlainLinear, freeze, joined

# attention sums fewer rows in another order: blocks of them on a CPU, a single one on a GPU
_ROWS = {"cpu": 4, "cuda": 2}
_FOLDS = {"cpu"}  # where copying queries is cheaper than reading the keys once for every token

Attend = Callable[[Tensor, Tensor], Tensor]


class Rotary(NamedTuple):
    """Rotary positions, of the first d' ≤ d dimensions of a head: factors of x and of x with its
    halves exchanged."""

    cos: Tensor  # [B or 1, n, 1, d']
    sin: Tensor  # [B or 1, n, 1, d'], the first half negated

    @staticmethod
    def of(cos: Tensor, sin: Tensor) -> Rotary:
        """Read cosines and sines [B or 1, n, d'], as transformers' rotary modules give them."""
        first, second = sin.chunk(2, -1)
        return Rotary(cos.unsqueeze(-2), torch.cat((-first, second), -1).unsqueeze(-2))

    def at(self, positions: Tensor) -> Rotary:
        """Return those of ``positions`` [B, n]."""
        flat, shape = positions.flatten(), (*positions.shape, 1, -1)
        cos, sin = (part.index_select(1, flat).view(shape) for part in (self.cos, self.sin))
        return Rotary(cos, sin)


class Norm(nn.Module):
    """Root mean square norm over the last dimension, times ``weight`` [..., size]."""

    root: Tensor

    def __init__(self, weight: Tensor, eps: float) -> None:
        super().__init__()
        self.eps, self.size = eps, weight.shape[-1]
        self.weight = nn.Parameter(weight.detach(), requires_grad=False)
        self.plain = weight.device.type == "cpu" and weight.dtype == torch.float32
        # x / √(mean x² + ε) · w = x / hypot(|x|, √(nε)) · √n w: half the time of the library's own
        # here
        if self.plain:
            self.weight = nn.Parameter(weight.detach() * math.sqrt(self.size), requires_grad=False)
            self.register_buffer("root", torch.tensor(math.sqrt(self.size * eps)), persistent=False)
        freeze(self)

    @property
    def gain(self) -> Tensor:
        """The factors [..., size] of what is normed."""
        return self.weight / math.sqrt(self.size) if self.plain else self.weight

    def forward(self, x: Tensor) -> Tensor:
        if self.plain:
            return (
                x
                / torch.hypot(torch.linalg.vector_norm(x, dim=-1, keepdim=True), self.root)
                * self.weight
            )
        if self.weight.dim() == 1:
            return nn.functional.rms_norm(x, (self.size,), self.weight, self.eps)
        return nn.functional.rms_norm(x, (self.size,), None, self.eps) * self.weight


@dataclass(frozen=True, slots=True)
class Heads:
    """Query heads, key/value heads, size of a head, and the factor of attention scores."""

    query: int
    key: int
    size: int
    scale: float


class Core(nn.Module):
    """A layer without its first norm: attention and the feed-forward block."""

    def __init__(
        self,
        heads: Heads,
        qkv: PlainLinear,
        output: PlainLinear,
        norm: Norm,
        up: PlainLinear,
        down: PlainLinear,
        activation: nn.Module,
        head_norm: Norm | None,
    ) -> None:
        super().__init__()
        self.heads, self.qkv, self.output, self.norm = heads, qkv, output, norm
        self.up, self.down, self.activation, self.head_norm = up, down, activation, head_norm
        self.turned = heads.query + heads.key
        freeze(self)

    @property
    def fusable(self) -> bool:
        """Whether it is computed by ``decoder.kernels``, of a dtype that they have."""
        parts = (self.qkv, self.output, self.up, self.down)
        silu = isinstance(self.activation, nn.SiLU | SiLUActivation)
        return silu and all(type(each) is PlainLinear for each in parts)

    def forward(self, x: Tensor, residual: Tensor, rotary: Rotary, attention: Attend) -> Tensor:
        """x [B, n, R], residual [B, n, H] → [B, n, H]; the residual may be overwritten.
        ``attention``: queries [B, n, query heads, d], keys and behind them values [B, n, 2 · key
        heads, d] → [B, n, query heads · d]."""
        heads, (batch, count, _) = self.heads, x.shape
        # query, key, value heads; turned ones take the place of those that they are made from
        projected = self.qkv.forward(x).view(batch, count, -1, heads.size)
        turned = straight = projected[:, :, : self.turned]
        size = rotary.cos.shape[-1]
        if self.head_norm is not None:
            straight = self.head_norm.forward(turned)
            if size < heads.size:
                turned[..., size:] = straight[..., size:]
        if size < heads.size:
            turned, straight = turned[..., :size], straight[..., :size]
        half = straight.roll(size // 2, -1).mul_(rotary.sin)
        torch.addcmul(half, straight, rotary.cos, out=turned)
        queries, stored = projected[:, :, : heads.query], projected[:, :, heads.query :]
        residual = self.output.added(attention(queries, stored), residual)
        gate, up = self.up.forward(self.norm.forward(residual)).chunk(2, -1)
        return self.down.added(self.activation(gate) * up, residual)


def attend(
    queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, heads: Heads
) -> Tensor:
    """queries [B, n, query heads, d]; keys, values [B, key heads, w, d] → [B, n, query heads · d].
    mask: additive or bool, [.., n, keys]; additive [.., n · G, keys] with each row G = query/key
    heads times; None: all before."""
    batch, n, *_ = queries.shape
    attention, group = nn.functional.scaled_dot_product_attention, heads.query // heads.key
    if mask is None or mask.shape[-2] != n * group:
        mixed = attention(
            queries.transpose(1, 2),
            keys,
            values,
            attn_mask=mask,
            is_causal=mask is None and n > 1,
            scale=heads.scale,
            enable_gqa=group > 1,
        )
        return mixed.transpose(1, 2).reshape(batch, n, -1)
    # The query heads that share a key head become rows: keys are not repeated, and every kernel
    # supports it. Without a copy each token is a text of its own.
    split = queries.unflatten(2, (heads.key, group))
    if alone := batch == 1 < group and queries.device.type not in _FOLDS:
        rows, mask = split[0], mask.view(n, 1, group, -1)
        keys, values = keys.expand(n, -1, -1, -1), values.expand(n, -1, -1, -1)
    else:
        rows = split.transpose(1, 2).reshape(batch, heads.key, n * group, heads.size)
    count = rows.shape[2]
    if missing := -count % _ROWS.get(rows.device.type, 1):
        rows, mask = (nn.functional.pad(each, (0, 0, 0, missing)) for each in (rows, mask))
    mixed = attention(rows, keys, values, attn_mask=mask, scale=heads.scale)[:, :, :count]
    if not alone:
        mixed = mixed.unflatten(2, (n, group)).transpose(1, 2)
    return mixed.reshape(batch, n, -1)


class FastLayer(nn.Module):
    """Replaces one of transformers' decoder layers."""

    def __init__(self, norm: Norm, core: Core, at: int) -> None:
        super().__init__()
        self.norm, self.core, self.at = norm, core, at
        freeze(self)

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        past_key_values: Any = None,
        position_embeddings: tuple[Tensor, Tensor] | None = None,
        **_: Any,
    ) -> Tensor:
        """Take the arguments of transformers' layers."""
        assert position_embeddings is not None

        def attention(queries: Tensor, stored: Tensor) -> Tensor:
            keys, values = stored.transpose(1, 2).chunk(2, 1)
            if past_key_values is not None:
                keys, values = past_key_values.update(keys, values, self.at)
            return attend(queries, keys, values, attention_mask, self.core.heads)

        return self.step(hidden_states.clone(), Rotary.of(*position_embeddings), attention)

    def step(self, hidden: Tensor, rotary: Rotary, attention: Attend) -> Tensor:
        """hidden [B, n, H], which may be overwritten → [B, n, H]."""
        return self.core.forward(self.norm.forward(hidden), hidden, rotary, attention)


def norm_of(module: Any) -> Norm:
    """Read any of transformers' root mean square norms."""
    return Norm(module.weight, module.variance_epsilon)


def core_of(attention: Any, feed: Any, norm: Any, heads: Heads) -> Core:
    """Read modules with transformers' names: q/k/v_proj or qkv_proj, o_proj, gate/up_proj or
    gate_up_proj, down_proj."""
    names = ("qkv_proj",) if hasattr(attention, "qkv_proj") else ("q_proj", "k_proj", "v_proj")
    read = [getattr(attention, name) for name in names]
    up = [feed.gate_up_proj] if hasattr(feed, "gate_up_proj") else [feed.gate_proj, feed.up_proj]
    head_norm = None  # the norms of queries and keys as one over all their heads
    if getattr(attention, "q_norm", None) is not None:
        q, k = attention.q_norm, attention.k_norm
        weights = torch.cat([q.weight.expand(heads.query, -1), k.weight.expand(heads.key, -1)])
        head_norm = Norm(weights, q.variance_epsilon)
    return Core(
        heads,
        joined(read),
        joined([attention.o_proj]),
        norm_of(norm),
        joined(up),
        joined([feed.down_proj]),
        feed.activation_fn if hasattr(feed, "activation_fn") else feed.act_fn,
        head_norm,
    )
