"""The trusted reference of a server: a model of this program that reads the server's own answers.
One pass over a prompt and its answer scores every token."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from evaluation.progress import show_progress
from evaluation.served.answer import Answer
from evaluation.statistics import Array
from mars_core.decoder import CacheSize, open_cache
from mars_core.models import ModelPool, custom_pair
from mars_core.sampling import Use, noise, words
from mars_core.text.prompting import encode
from mars_core.types import PromptConfig

NEAR = 0.9  # z₂/z₁ of a near tie: the paper's θ


class Scores(NamedTuple):
    """Of n tokens, under the reference; ln p is at temperature 1, in nats."""

    gap: Array  # how far the token is behind the reference's choice; 0: it is that
    margin: Array  # how far the reference's second choice is behind
    ratio: Array  # z/z₁ of the token
    rank: Array  # 1: no token is more probable
    logprob: Array
    surprise: Array  # −ln p less its mean, the entropy
    variance: Array  # of −ln p
    above: Array  # the probability of all tokens that are more probable
    runner: Array  # at a near tie the probability of the runner-up, else nan


def joined(parts: Sequence[Scores]) -> Scores:
    return Scores(*map(np.concatenate, zip(*parts, strict=True)))


class Reference:
    """Raises ModelError for a folder or a GGUF file that cannot be used."""

    def __init__(self, name: str) -> None:
        self.name, self.pair = name, ModelPool().get(custom_pair(name), show_progress)
        self.size = int(self.pair.target.config.get_text_config(decoder=True).vocab_size)

    def prompt(self, text: str) -> list[int]:
        """Return the ids of a prompt in the reference's chat template."""
        return encode(self.pair.tokenizer, PromptConfig(text))

    def ids(self, answer: Answer, tokens: int, *, guess: bool = False) -> tuple[int, ...] | None:
        """Return the first ``tokens`` ids of an answer; None where the server does not identify
        all, or names one that the reference does not have. ``guess``: else those of its text, if
        they are as many as the server counted."""
        ids = [each for each in answer.names or () if isinstance(each, int)]
        if not answer.names and guess:
            ids = self.pair.tokenizer(answer.text, add_special_tokens=False)["input_ids"]
            if answer.finish_reason == "stop" and len(self.pair.eos_ids) == 1:
                ids += self.pair.eos_ids
        expected = len(answer.names or ()) or answer.usage.get("completion_tokens")
        known = ids and len(ids) == expected and max(ids) < self.size
        return tuple(ids[:tokens]) if known else None

    @torch.inference_mode()
    def scores(
        self,
        prompt: Sequence[int],
        answers: Sequence[Sequence[int]],
        drawn: Callable[[int, int], Tensor] | None = None,
    ) -> list[Scores]:
        """Score answers to a prompt. ``drawn(i, n)``: the exponential noise [n, V] with which
        answer i was drawn; at temperature 0 there is none. Raises ValueError for a text that is
        longer than the reference can read."""
        longest = max(map(len, answers))
        if (length := len(prompt) + longest) > self.pair.context:
            raise ValueError(
                f"A prompt with its answer has {length:,} tokens; the reference reads at most "
                f"{self.pair.context:,}."
            )
        cache = open_cache(self.pair.target, CacheSize(length, longest, self.pair.shapes))
        cache.read(torch.tensor(prompt[:-1], dtype=torch.long, device=cache.device))
        rows = []
        for number, ids in enumerate(answers):
            read = torch.tensor([prompt[-1], *ids[:-1]], device=cache.device)
            z = cache.forward(read, len(prompt) - 1, len(ids))
            rows.append(_scored(z, ids, drawn(number, len(ids)) if drawn else None))
        return rows


def _scored(z: Tensor, ids: Sequence[int], drawn: Tensor | None) -> Scores:
    """Score ids [n] by logits z [n, V]."""
    token = torch.tensor(ids, device=z.device)[:, None]
    logprobs = z.log_softmax(-1)
    race = logprobs if drawn is None else logprobs - drawn[:, : z.shape[-1]].to(z.device).log()
    p, own = logprobs.exp(), logprobs.gather(-1, token)
    entropy, square = (-(p * logprobs)).nansum(-1), (p * logprobs**2).nansum(-1)
    first, best = race.topk(2).values.T, z.topk(2)
    more = logprobs > own
    near = (best.values[:, 0] > 0) & (best.values[:, 1] > NEAR * best.values[:, 0])
    columns = {
        "gap": first[0] - race.gather(-1, token)[:, 0],
        "margin": first[0] - first[1],
        "ratio": (z.gather(-1, token) / best.values[:, :1])[:, 0],
        "rank": 1 + more.sum(-1),
        "logprob": own[:, 0],
        "surprise": -own[:, 0] - entropy,
        "variance": square - entropy**2,
        "above": (p * more).sum(-1),
        "runner": p.gather(-1, best.indices)[:, 1].masked_fill(~near, math.nan),
    }
    return Scores(**{name: column.double().cpu().numpy() for name, column in columns.items()})


def of_mars(size: int, seed: int, count: int) -> Tensor:
    """Return this program's noise [count, V] of the answer with ``seed``."""
    keys = torch.tensor(words(seed, 0, count)).view(count, -1)[:, Use.DRAW]
    return noise(keys, size)


def of_torch(size: int, seed: int, count: int) -> Tensor:
    """Return the noise of vLLM without speculative decoding on a CPU: torch's generator, one row
    after the other (Token-DiFR, 2511.20621)."""
    source = torch.Generator().manual_seed(seed)
    return torch.stack([torch.empty(size).exponential_(generator=source) for _ in range(count)])


# What a server may draw with, if its seeds are those of the requests.
NOISES: Mapping[str, Callable[[int, int, int], Tensor]] = {
    "MARS": of_mars,
    "vLLM on a CPU": of_torch,
}
