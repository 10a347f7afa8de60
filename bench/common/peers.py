"""Two reference implementations of draft-model decoding at temperature 0: transformers' assisted generation, and a plain loop.

The loop is the basic algorithm (as in gpt-fast): K greedy draft steps on a static cache, one pass of the target
over them, the longest prefix on which both agree, and one token of the target; the host waits for the device once per round.
Without compilation and telemetry. Both need unmodified transformers models and prompt ids.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig, PreTrainedModel, PreTrainedTokenizerBase, StaticCache

from bench.common.measure import Decoded, Method
from mars_core.text.prompting import encode
from mars_core.types import PromptConfig

Decoder = Callable[[Sequence[int], int], Decoded]  # prompt ids, number of new tokens → new ids
Ends = int | list[int] | None  # ids that end a text; None: continue to the last token


def prompted(decoder: Decoder, tokenizer: PreTrainedTokenizerBase, new: int) -> Method:
    """A decoder as a benchmark method, with the same prompt ids as our runs."""

    def decode(prompt: PromptConfig, _seed: int) -> Decoded:
        return decoder(encode(tokenizer, prompt), new)

    return decode


def greedy(target: PreTrainedModel, eos: Ends = None, **options: Any) -> Decoder:
    """transformers' ``generate``, by default without a draft model."""
    model: Any = target

    @torch.inference_mode()
    def decode(prompt: Sequence[int], new: int) -> Decoded:
        ids = torch.tensor([prompt], device=target.device)
        config = GenerationConfig(do_sample=False, max_new_tokens=new, eos_token_id=eos, pad_token_id=0)
        output = model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=config, **options)
        return Decoded(tuple(output[0, len(prompt) :].tolist()), 0)

    return decode


def assisted(target: PreTrainedModel, draft: PreTrainedModel, k: int, eos: Ends = None) -> Decoder:
    """transformers' assisted generation: always K drafted tokens, independent of the draft's confidence. Configures ``draft``."""
    always: dict[str, Any] = {"num_assistant_tokens_schedule": "constant", "assistant_confidence_threshold": 0.0}
    draft.generation_config = GenerationConfig(num_assistant_tokens=k, eos_token_id=eos, pad_token_id=0, **always)
    return greedy(target, eos, assistant_model=draft)


def looped(target: PreTrainedModel, draft: PreTrainedModel, k: int) -> Decoder:
    """The plain loop."""

    @torch.inference_mode()
    def decode(prompt: Sequence[int], new: int) -> Decoded:
        length = len(prompt) + new + k + 1
        reader, drafter = _Static(target, length), _Static(draft, length)
        ids, steps = list(prompt), 0
        reader.read(torch.tensor(ids[:-1], device=target.device))
        while len(ids) < len(prompt) + new:
            ids += _round(reader, drafter, ids, min(k, len(prompt) + new - len(ids) - 1))
            steps += 1
        return Decoded(tuple(ids[len(prompt) :]), steps)

    return decode


def _round(reader: _Static, drafter: _Static, ids: Sequence[int], k: int) -> list[int]:
    """Tokens emitted by one draft of k tokens and one pass of the target."""
    fed = torch.tensor(ids[drafter.length :], device=drafter.device)
    drafted: list[Tensor] = []
    for _ in range(k):
        fed = drafter.read(fed)[-1:]
        drafted.append(fed)
    root = torch.tensor(ids[-1:], device=reader.device)
    chosen: list[int] = reader.read(torch.cat([root, *drafted])).tolist()
    guesses: list[int] = torch.cat(drafted).tolist() if drafted else []
    agreed = next((at for at in range(k) if guesses[at] != chosen[at]), k)
    reader.keep(len(ids) + agreed)
    drafter.keep(len(ids) + agreed)
    return chosen[: agreed + 1]


class _Static:
    """A model with transformers' static cache, of which the first ``length`` positions are valid."""

    def __init__(self, model: PreTrainedModel, length: int) -> None:
        self._model: Any = model
        self._cache: Any = StaticCache(config=model.config, max_cache_len=length)
        self._columns = torch.arange(length, device=model.device)
        self.device = model.device
        self.length = 0

    def read(self, ids: Tensor) -> Tensor:
        """Caches ids [n]; the most likely token after each, [n]."""
        positions = self._columns[self.length : self.length + len(ids)]
        if not len(ids):
            return positions
        mask = self._columns <= positions[:, None]
        place = {"position_ids": positions[None], "attention_mask": mask[None, None]}
        output = self._model(input_ids=ids[None], **place, past_key_values=self._cache, use_cache=True)
        self.length += len(ids)
        chosen: Tensor = output.logits[0].argmax(-1)
        return chosen

    def keep(self, length: int) -> None:
        """Truncates the cache to ``length``; later positions are overwritten."""
        self.length = min(self.length, length)
        for layer in self._cache.layers:
            layer.cumulative_length.fill_(self.length)
