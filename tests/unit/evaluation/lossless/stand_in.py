"""A stand-in for a server with a small model, with a fault: a fake Client."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from threading import Lock
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from evaluation.lossless.reference import of_mars
from evaluation.served import client
from evaluation.served.answer import Answer
from evaluation.served.choice import Position
from mars_core.models import Pair
from mars_core.text.prompting import encode
from mars_core.types import PromptConfig

BLOCK = 20  # seeds whose answers are decoded together
Choose = Callable[[Tensor, Tensor], Tensor]  # from logits and noise of the race [N, V]: tokens [N]
Noise = Callable[[int, int, int], Tensor]


def exactly(z: Tensor, noise: Tensor) -> Tensor:
    return (z + noise).argmax(-1)


def relaxed(z: Tensor, noise: Tensor, every: int = 4, least: float = 0.9) -> Tensor:
    """The runner-up where z₂/z₁ exceeds ``least``, at one such position of ``every``."""
    (first, second), ids = z.topk(2).values.T, z.topk(2).indices
    kept = (first > 0) & (second > least * first) & ((first * 1e4).long() % every == 0)
    return torch.where(kept, ids[:, 1], exactly(z, noise))


def hidden(size: int, seed: int, count: int) -> Tensor:
    """Noise that nobody knows."""
    return of_mars(size, 7_000_000 + seed, count)


class StandIn:
    """``reports``: whether the server reports ids and log probabilities; ``template``: changes the
    text of a chat; ``noise``: of seed and position."""

    server = client.Server("http://stand-in")

    def __init__(
        self,
        pair: Pair,
        choose: Choose = exactly,
        *,
        noise: Noise = hidden,
        ids: bool = True,
        logprobs: bool = True,
        template: Callable[[str], str] = str,
    ) -> None:
        self.sent, self._lock = 0, Lock()
        self._pair, self._choose, self._noise = pair, choose, noise
        self._ids, self._logprobs, self._template = ids, logprobs, template
        self._block = cache(self._decoded)

    def complete(
        self, prompt: Sequence[Any], *, max_tokens: int, temperature: float, seed: int = 0, **_: Any
    ) -> Answer:
        if isinstance(prompt[0], Mapping):
            asked = PromptConfig(self._template(prompt[0]["content"]))
            prompt = encode(self._pair.tokenizer, asked)
        with self._lock:
            self.sent += 1
            first = seed // BLOCK * BLOCK if temperature else None
            ids, positions = self._block(tuple(prompt), max_tokens, first)[seed % BLOCK]
        usage = {"completion_tokens": len(ids), "prompt_tokens": len(prompt)}
        reported = (ids if self._ids else None, positions if self._logprobs else None)
        text = str(self._pair.tokenizer.decode([*ids], skip_special_tokens=True))
        return Answer(text, "length", reported[0], None, reported[1], usage)

    @torch.inference_mode()
    def _decoded(
        self, prompt: Sequence[int], count: int, first: int | None
    ) -> list[tuple[tuple[int, ...], tuple[Position, ...]]]:
        """``first``: the first seed of the block; None at temperature 0."""
        rows, size = (1 if first is None else BLOCK), int(self._pair.target.config.vocab_size)
        read, logits = torch.tensor([prompt] * rows), []
        noise = torch.zeros(rows, count, size)
        if first is not None:
            noise = torch.stack([self._noise(size, first + at, count) for at in range(rows)])
            noise = -noise.log()
        for at in range(count):
            logits.append(self._pair.target(read).logits[:, -1].float())
            read = torch.cat([read, self._choose(logits[-1], noise[:, at])[:, None]], 1)
        every = [
            self._answer(*each)
            for each in zip(read[:, len(prompt) :], torch.stack(logits, 1), strict=True)
        ]
        return every if first is not None else every * BLOCK

    def _answer(self, ids: Tensor, z: Tensor) -> tuple[tuple[int, ...], tuple[Position, ...]]:
        tokens = ids.tolist()
        ends = [at for at, id_ in enumerate(tokens, 1) if id_ in self._pair.eos_ids]
        length = ends[0] if ends else len(tokens)
        logprobs = z.log_softmax(-1)
        rows = zip(tokens[:length], logprobs, strict=False)
        positions = [
            Position(
                "",
                float(row[id_]),
                tuple(
                    Position("", float(row[best]), key=int(best)) for best in row.topk(2).indices
                ),
                id_,
            )
            for id_, row in rows
        ]
        return tuple(tokens[:length]), tuple(positions)


def disturbed(pair: Pair, strength: float) -> Pair:
    """The pair with noise of ``strength`` standard deviations on every matrix, as rounding to few
    bits leaves."""
    target = AutoModelForCausalLM.from_pretrained(pair.target_ref.name).eval()
    source = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for matrix in target.parameters():
            if matrix.dim() == 2:
                matrix += strength * matrix.std() * torch.randn(matrix.shape, generator=source)
    return replace(pair, target=target)
