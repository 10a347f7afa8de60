"""A causal language model with a key/value cache that can be rolled back: token ids in, raw logits out.

Used for the target and for a draft model. A plain ``DynamicCache()`` keeps every position of every layer, sliding windows
included (the mask carries the window), so that a rollback is always exact and a path of a tree can be kept in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from mars_core.tree import ancestors


class ModelCache:
    """``length`` positions are cached. Not to be shared between runs.

    ``taps``: layers whose input is kept of every forward pass, in ``features`` [n, taps · H], for a drafter that reads them.
    """

    def __init__(self, model: PreTrainedModel, taps: Sequence[int] = ()) -> None:
        self.model = model
        self.device = input_embedding(model).weight.device
        self.length = 0
        self.features: Tensor | None = None
        self._taps = tuple(taps)
        self._cache = DynamicCache()

    def forward(self, ids: Tensor, logits: int = 0) -> Tensor:
        """Caches ids [n] after what is there; raw float32 logits [logits, V] of the last ``logits`` of them (0: of all)."""
        return self._forward(ids, {"logits_to_keep": logits})

    def forward_tree(self, ids: Tensor, parents: Tensor, depths: Tensor) -> Tensor:
        """As ``forward`` for the nodes ids [N + 1] of a tree (see ``tree``): each sees what is cached and its ancestors."""
        mask = self._mask(ancestors(parents), depths)
        return self._forward(ids, {"attention_mask": mask, "position_ids": (self.length + depths)[None]})

    def keep(self, length: int) -> None:
        """Forgets all positions from ``length`` on."""
        if length < self.length:
            self._cache.crop(length - self.length)
            self.length = length

    def keep_path(self, root: int, path: Sequence[int]) -> None:
        """Of the tree whose root was cached at position ``root``, keeps the nodes of ``path`` (root included), in place."""
        if tuple(path) != tuple(range(len(path))):
            for layer in self._cache.layers:
                assert isinstance(layer, DynamicLayer)
                for cached in (layer.keys, layer.values):
                    assert cached is not None
                    rows = torch.tensor(path, device=cached.device) + root
                    cached[:, :, root : root + len(path)] = cached[:, :, rows]
        self.keep(root + len(path))

    def _forward(self, ids: Tensor, options: dict[str, Any]) -> Tensor:
        with self._tapped():
            output = self.model(
                input_ids=ids[None], past_key_values=self._cache, use_cache=True, return_dict=True, **options
            )
        self.length += len(ids)
        rows: Tensor = output.logits[0].float()
        return rows

    def _mask(self, sees: Tensor, depths: Tensor) -> Tensor | dict[str, Tensor]:
        """Additive [1, 1, N + 1, length + N + 1]: 0 where a node looks. A sliding window is cut here, since the cache keeps all."""
        lowest = torch.finfo(self.model.dtype).min
        positions = self.length + depths
        mask = depths.new_full((len(depths), self.length + len(depths)), 0, dtype=self.model.dtype)
        mask[:, self.length :].masked_fill_(~sees, lowest)
        window = getattr(self.model.config, "sliding_window", None)
        kinds = set(getattr(self.model.config, "layer_types", None) or ())
        if window is None or kinds == {"full_attention"}:
            return mask[None, None]
        places = torch.cat([torch.arange(self.length, device=depths.device), positions])
        cut = mask.masked_fill(positions[:, None] - places >= window, lowest)[None, None]
        return {"full_attention": mask[None, None], "sliding_attention": cut} if kinds else cut

    @contextmanager
    def _tapped(self) -> Iterator[None]:
        """Copies what enters the tapped layers; hooks live as long as one forward pass, so that a model may serve many runs."""
        if not self._taps:
            yield
            return
        found: dict[int, Tensor] = {}
        layers = decoder_layers(self.model)

        def hook(tap: int) -> Any:
            def take(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
                found[tap] = (args[0] if args else kwargs["hidden_states"])[0]

            return take

        handles = [layers[tap].register_forward_pre_hook(hook(tap), with_kwargs=True) for tap in self._taps]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
        self.features = torch.cat([found[tap].to(self.device) for tap in self._taps], -1)


def decoder_layers(model: PreTrainedModel) -> nn.ModuleList:
    """The decoder layers of a Llama-like model."""
    layers = model.get_decoder().layers
    assert isinstance(layers, nn.ModuleList)
    return layers


def input_embedding(model: PreTrainedModel) -> nn.Embedding:
    """The table of token embeddings: its device is where ids go, its rows are the ids that may be read."""
    table = model.get_input_embeddings()
    assert isinstance(table, nn.Embedding)
    return table


def synchronise(device: torch.device) -> None:
    """Waits for the device, so that a clock read next means something."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
