"""The cache over transformers' own modules, for every architecture that has no fast layers here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from mars_core.decoder.cache import ModelCache
from mars_core.decoder.store import FixedLayer, fixed_cache


class ModulesCache(ModelCache):
    """Every position of every layer is kept, sliding windows included (the mask carries the window)."""

    path = "transformers' modules, eager"

    def __init__(self, model: PreTrainedModel, tokens: int, nodes: int, taps: Sequence[int]) -> None:
        super().__init__(model, taps)
        self._model = model
        self._cache = fixed_cache(tokens + nodes + 1)

    def _pass(self, ids: Tensor, tree: tuple[Tensor, Tensor] | None, logits: int) -> Tensor:
        options: dict[str, Any] = {"logits_to_keep": logits}
        if tree is not None:
            depths, sees = tree
            options = {"attention_mask": self._mask(sees, depths), "position_ids": (self.length + depths)[None]}
        with self._tapped():
            output = self._model(
                input_ids=ids[None], past_key_values=self._cache, use_cache=True, return_dict=True, **options
            )
        self.length += len(ids)
        rows: Tensor = output.logits[0].float()
        return rows

    def _crop(self, count: int) -> None:
        self._cache.crop(-count)

    def move(self, path: Sequence[int], start: int) -> None:
        for layer in self._cache.layers:
            assert isinstance(layer, FixedLayer)
            layer.move(path, start)

    def _mask(self, sees: Tensor, depths: Tensor) -> Tensor | dict[str, Tensor]:
        """Additive [1, 1, N + 1, length + N + 1]: 0 where a node looks. A sliding window is cut here, since the cache keeps all."""
        lowest = torch.finfo(self._model.dtype).min
        positions = self.length + depths
        mask = depths.new_full((len(depths), self.length + len(depths)), 0, dtype=self._model.dtype)
        mask[:, self.length :].masked_fill_(~sees, lowest)
        window = getattr(self._model.config, "sliding_window", None)
        kinds = set(getattr(self._model.config, "layer_types", None) or ())
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
        layers = self._model.get_decoder().layers

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
