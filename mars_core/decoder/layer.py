"""A decoder layer in few operations: fused projections, in-place rotation, one attention call.
``architectures.py`` says what it has.

Replaces transformers' layers (same call, same cache protocol). Shapes: B batch, n tokens, H width,
d head size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers.activations import SiLUActivation

from mars_core.decoder.architectures import LLAMA, Architecture
from mars_core.decoder.attention import Heads, attend
from mars_core.decoder.linear import PlainLinear, freeze
from mars_core.decoder.packing import joined

Attend = Callable[[Tensor, Tensor], Tensor]
Change = Callable[[Tensor], Tensor]


class Rotary(NamedTuple):
    """Rotary positions, of the first d' ≤ d dimensions of a head: factors of x and of x with its
    halves exchanged."""

    cos: Tensor  # [B or 1, n, 1, d']
    sin: Tensor  # [B or 1, n, 1, d'], the first half negated

    @staticmethod
    def of(cos: Tensor, sin: Tensor, like: Tensor, *, still: bool = False) -> Rotary:
        """Read cosines and sines [B or 1, n, d'], as transformers' rotary modules give them, in the
        dtype of ``like``. ``still``: those of position 0 instead, which turn nothing."""
        if still:
            cos, sin = torch.ones_like(cos), torch.zeros_like(sin)
        first, second = sin.to(like.dtype).chunk(2, -1)
        turned = torch.cat((-first, second), -1)
        return Rotary(cos.to(like.dtype).unsqueeze(-2), turned.unsqueeze(-2))

    def at(self, positions: Tensor) -> Rotary:
        """Return those of ``positions`` [B, n]."""
        flat, shape = positions.flatten(), (*positions.shape, 1, -1)
        cos, sin = (part.index_select(1, flat).view(shape) for part in (self.cos, self.sin))
        return Rotary(cos, sin)


def rotary_of(
    module: Any, like: Tensor, positions: Tensor, kind: str | None = ""
) -> tuple[Tensor, Tensor]:
    """Return cosines and sines [1, n, d'] at ``positions`` [1, n] by one of transformers' rotary
    modules, which may have some for every ``kind`` of layers."""
    cos, sin = module(like, positions, *([kind] if kind else []))
    return cos, sin


class Norm(nn.Module):
    """Root mean square norm over the last dimension, times ``weight`` [..., size]. A float32 weight
    of a model in half precision is not rounded to it."""

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
        wide = x.float() if self.weight.dtype == torch.float32 else x
        if self.plain:
            length = torch.linalg.vector_norm(wide, dim=-1, keepdim=True)
            normed = wide / torch.hypot(length, self.root) * self.weight
        elif self.weight.dim() == 1:
            normed = nn.functional.rms_norm(wide, (self.size,), self.weight, self.eps)
        else:
            normed = nn.functional.rms_norm(wide, (self.size,), None, self.eps) * self.weight
        return normed.to(x.dtype)


class JointNorm(nn.Module):
    """Norms all queries of a token as one, and all its keys."""

    def __init__(self, queries: Norm, keys: Norm) -> None:
        super().__init__()
        self.queries, self.keys = queries, keys
        freeze(self)

    def forward(self, x: Tensor) -> Tensor:
        """[B, n, query and key heads, d] → the same."""
        parts = x.flatten(2).split((self.queries.size, self.keys.size), -1)
        normed = self.queries.forward(parts[0]), self.keys.forward(parts[1])
        return torch.cat(normed, -1).view(x.shape)


class Core(nn.Module):
    """A layer without its first norm: attention and the feed-forward block."""

    def __init__(
        self,
        heads: Heads,
        qkv: PlainLinear,
        output: PlainLinear,
        norm: Norm | None,
        up: PlainLinear,
        down: PlainLinear,
        activation: nn.Module,
        head_norm: Norm | JointNorm | None,
        after: Sequence[Change | None],
    ) -> None:
        super().__init__()
        self.heads, self.qkv, self.output, self.norm = heads, qkv, output, norm
        self.up, self.down, self.activation, self.head_norm = up, down, activation, head_norm
        self.after_attention, self.after_feed = after
        self.turned = heads.query + heads.key
        freeze(self)

    @property
    def fusable(self) -> bool:
        """Whether it is computed by ``decoder.kernels``, of a dtype that they have."""
        parts = (self.qkv, self.output, self.up, self.down)
        silu = isinstance(self.activation, nn.SiLU | SiLUActivation)
        foreign = self.after_attention or self.after_feed or self.heads.cap
        separate = self.norm is not None and not isinstance(self.head_norm, JointNorm)
        plain = all(type(each) is PlainLinear for each in parts)
        return silu and plain and separate and not foreign

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
        mixed = attention(queries, stored)
        residual = _added(self.output, mixed, self.after_attention, residual)
        inner = residual if self.norm is None else self.norm.forward(residual)
        gate, up = self.up.forward(inner).chunk(2, -1)
        return _added(self.down, self.activation(gate) * up, self.after_feed, residual)


def _added(layer: PlainLinear, x: Tensor, after: Change | None, to: Tensor) -> Tensor:
    """Return the layer's product, changed by ``after``, and ``to``, which may be overwritten."""
    return layer.added(x, to) if after is None else to + after(layer.forward(x))


class FastLayer(nn.Module):
    """Replaces one of transformers' decoder layers. ``windowed``: it has the sliding window, if the
    model has one. ``rotary``: the kind of its rotary positions, empty where all layers have the
    same; None: it has none."""

    def __init__(
        self, norm: Norm | None, core: Core, at: int, *, windowed: bool, rotary: str | None
    ) -> None:
        super().__init__()
        self.norm, self.core, self.at = norm, core, at
        self.windowed, self.rotary = windowed, rotary
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

        rotary = Rotary.of(*position_embeddings, hidden_states, still=self.rotary is None)
        x = self.normed(hidden_states)
        return self.core.forward(x, hidden_states.clone(), rotary, attention)

    def normed(self, x: Tensor) -> Tensor:
        """Return what the core reads."""
        return x if self.norm is None else self.norm.forward(x)


class PlacedLayer(NamedTuple):
    """A layer of a cache, its rotary positions and its sliding window."""

    layer: FastLayer
    rotary: Rotary
    window: int | None


def norm_of(module: Any, offset: int = 0) -> Norm:
    """Read any of transformers' root mean square norms; ``offset`` is added to its weight."""
    return Norm(*_read(module, offset))


def _read(module: Any, offset: int) -> tuple[Tensor, float]:
    weight = module.weight.float() + offset if offset else module.weight
    return weight, module.eps if hasattr(module, "eps") else module.variance_epsilon


def core_of(
    attention: Any,
    feed: Any,
    norm: Norm | None,
    heads: Heads,
    row: Architecture = LLAMA,
    after: Sequence[Change | None] = (None, None),
) -> Core:
    """Read modules with transformers' names: q/k/v_proj or qkv_proj, o_proj, gate/up_proj or
    gate_up_proj, down_proj. ``after``: what follows attention, and what the feed-forward block."""
    names = ("qkv_proj",) if hasattr(attention, "qkv_proj") else ("q_proj", "k_proj", "v_proj")
    read = [getattr(attention, name) for name in names]
    up = [feed.gate_up_proj] if hasattr(feed, "gate_up_proj") else [feed.gate_proj, feed.up_proj]
    head_norm: Norm | JointNorm | None = None
    if getattr(attention, "q_norm", None) is not None:
        (q, eps), (k, _) = (
            _read(each, row.norm_offset) for each in (attention.q_norm, attention.k_norm)
        )
        if row.joint_heads:
            head_norm = JointNorm(Norm(q, eps), Norm(k, eps))
        else:  # those of queries and keys as one over all their heads
            weights = torch.cat([q.expand(heads.query, -1), k.expand(heads.key, -1)])
            head_norm = Norm(weights, eps)
    return Core(
        heads,
        joined(read),
        joined([attention.o_proj]),
        norm,
        joined(up),
        joined([feed.down_proj]),
        feed.activation_fn if hasattr(feed, "activation_fn") else feed.act_fn,
        head_norm,
        after,
    )
