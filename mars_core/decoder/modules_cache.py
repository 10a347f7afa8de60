"""The cache for transformers' modules, for architectures without fast layers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from mars_core.decoder.cache import CacheSize, ModelCache, input_embedding
from mars_core.decoder.positions import PassLayout, PositionIndex
from mars_core.decoder.store import ModulesStore


class ModulesCache(ModelCache):
    """Every position of every layer stays, sliding windows included (the mask carries the
    window)."""

    path = "transformers' modules"
    _one_width = True

    def __init__(
        self, model: PreTrainedModel, size: CacheSize, feature_layers: Sequence[int] = ()
    ) -> None:
        config = model.config.get_text_config(decoder=True)
        self._layers: int = config.num_hidden_layers
        self._kinds = set(getattr(config, "layer_types", None) or ())
        window = (
            None if self._kinds == {"full_attention"} else getattr(config, "sliding_window", None)
        )
        like = input_embedding(model).weight.new_empty(0, dtype=model.dtype)
        index = PositionIndex(size.capacity, like, window=window, step=size.shapes.width_step)
        super().__init__(model, size, feature_layers, index)
        self._model, self._last = model, size.tokens - 1
        self._store: ModulesStore = ModulesStore(size.capacity)

    def _pass(self, ids: Tensor, layout: PassLayout, logits: int) -> tuple[Tensor, Tensor]:
        self._store.current_pass.layout = layout
        options: dict[str, Any] = {}
        if not layout.ends_at_width:
            (segment,) = layout.segments  # see ``_chunks``
            full, windowed = segment.full, segment.windowed  # [1, 1, n, width]
            mask = (
                {"full_attention": full, "sliding_attention": windowed} if self._kinds else windowed
            )
            # learned positions end with the context, which padding may exceed
            positions = layout.positions.clamp(max=self._last)
            options = {"attention_mask": mask, "position_ids": positions}
        with self._tapped() as inputs:
            output = self._model(
                input_ids=ids,
                past_key_values=self._store,
                use_cache=True,
                return_dict=True,
                logits_to_keep=logits,
                **options,
            )
        features = [inputs[tap].to(self.device) for tap in self._feature_layers]
        return output.logits.float(), torch.cat(
            features, -1
        ) if self._feature_layers else self.features[:, :0]

    @contextmanager
    def _tapped(self) -> Iterator[dict[int, Tensor]]:
        """Records the inputs of the tapped layers; the hooks are removed after the pass, because
        runs share the model."""
        inputs: dict[int, Tensor] = {}
        decoder: Any = self._model.get_decoder()

        def hook(tap: int) -> Any:
            def take(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
                inputs[tap] = args[0] if args else kwargs["hidden_states"]

            return take

        def take_last(_module: nn.Module, _args: Any, output: Any) -> None:
            inputs[self._layers] = output.last_hidden_state

        handles = [
            decoder.layers[tap].register_forward_pre_hook(hook(tap), with_kwargs=True)
            if tap < self._layers
            else decoder.register_forward_hook(take_last)
            for tap in self._feature_layers
        ]
        try:
            yield inputs
        finally:
            for handle in handles:
                handle.remove()
