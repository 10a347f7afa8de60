"""The EAGLE-3 head for decoding: a fused layer and preallocated keys and values."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from mars_core.decoder.attention import Heads
from mars_core.decoder.cache import CHUNK, CacheSize
from mars_core.decoder.layer import FastLayer, core_of, norm_of
from mars_core.decoder.packing import pack, quantise
from mars_core.decoder.positions import PassLayout, Rows
from mars_core.decoder.stack import LayerStack
from mars_core.eagle3.head import Eagle3Head, HeadLayer


class FastHeadLayer(nn.Module):
    """Replaces a ``HeadLayer`` for inference."""

    def __init__(self, layer: HeadLayer) -> None:
        super().__init__()
        heads = Heads(
            layer.q_proj.out_features // layer.head_dim,
            layer.kv_heads,
            layer.head_dim,
            layer.head_dim**-0.5,
        )
        self.norm_before_residual = layer.norm_before_residual
        self.input_norm, self.hidden_norm = (
            norm_of(layer.input_layernorm),
            norm_of(layer.hidden_norm),
        )
        self.core = core_of(layer, layer.mlp, norm_of(layer.post_attention_layernorm), heads)

    def inputs(self, embedded: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Return what the core reads [B, n, 2H], and the residual [B, n, H], of embedded and hidden
        [B, n, H]."""
        normed = self.hidden_norm(hidden)
        residual = normed if self.norm_before_residual else hidden.clone()
        return torch.cat((self.input_norm(embedded), normed), -1), residual


@torch.no_grad()
def prepare_head(head: Eagle3Head, *, quantised: bool = False) -> None:
    """Prepares a loaded head for decoding, in place; afterwards it cannot be trained or saved.
    ``quantised``: as its target, to 8 bits."""
    if quantised:
        quantise(head)
    head.register_module("layer", FastHeadLayer(head.layer))
    head.register_module("norm", norm_of(head.norm))
    pack(head)


class HeadCache:
    """Keys and values of a prepared head's entries. Drafted entries are stored after those with
    features of the target, and are overwritten by them."""

    def __init__(self, head: Eagle3Head, size: CacheSize) -> None:
        layer = cast(nn.Module, head.layer)
        if not isinstance(layer, FastHeadLayer):
            raise TypeError("The head must be prepared: see prepare_head.")
        like = head.embed_tokens.weight
        self._head, self._layer, self._full_width = head, layer, size.full_width
        core = FastLayer(None, layer.core, 0, windowed=False, rotary="")
        self.layers = LayerStack([core], head.rotary, None, size, like)
        self._index = self.layers.index

    def read(self, ids: Tensor, hidden: Tensor, slot: int = 0) -> None:
        """Read the entries ids [n], hidden [n, H] of a prompt, ``CHUNK`` at a time."""
        start = 0
        for chunk, states in zip(ids.split(CHUNK), hidden.split(CHUNK), strict=True):
            rows = Rows.one(start, slot, ids.device)
            layout = self._index.chain(rows, len(chunk), full_width=False, prompt=True)
            self._through_layer(chunk[None], states[None], layout)
            start += len(chunk)

    def extend(self, ids: Tensor, hidden: Tensor, rows: Rows) -> Tensor:
        """Entries ids [A, n], hidden [A, n, H] at the positions from the start of each row on →
        outputs [A, n, H]."""
        layout = self._index.chain(rows, ids.shape[1], full_width=self._full_width)
        return self._through_layer(ids, hidden, layout)

    def draft(self, ids: Tensor, hidden: Tensor, rows: Rows, depth: int, sees: Tensor) -> Tensor:
        """Drafted entries ids [A, n] at ``depth`` below the start of each row; ``sees`` [A, n, m]
        among the m drafted ones, which end with these → outputs [A, n, H]."""
        layout = self._index.tree(rows, depth, sees, full_width=self._full_width)
        return self._through_layer(ids, hidden, layout)

    def predict(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs [.., H] → hidden states to feed back [.., H] and draft logits [.., D]."""
        normed: Tensor = self._head.norm(outputs)
        return (normed if self._head.config.norm_output else outputs), self._head.lm_head(normed)

    def _through_layer(self, ids: Tensor, hidden: Tensor, layout: PassLayout) -> Tensor:
        self.layers.begin(layout)
        return self.layers.through(0, *self._layer.inputs(self._head.embed_tokens(ids), hidden))
