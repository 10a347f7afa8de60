"""Stand-ins for servers that draft with a model and sample its drafts: what is right, and what servers
did wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from evaluation.served import client
from evaluation.served.answer import Answer
from evaluation.served.choice import Position
from evaluation.statistics import Array

WORDS = 12
K = 4  # drafted tokens
# From uniforms and, at every drafted token, the ratio p/q of its probabilities and both laws: how
# many tokens are kept, and the weights of the next one if that is not all.
Verify = Callable[[np.random.Generator, Array, Sequence[Array], Sequence[Array]], tuple[int, Array]]


def _residual(p: Array, q: Array) -> Array:
    return np.maximum(p - q, 0)


def _tokens_kept(source: np.random.Generator, ratios: Array) -> int:
    return int(np.cumprod(source.random(len(ratios)) < ratios).sum())


def strict(
    source: np.random.Generator, ratios: Array, p: Sequence[Array], q: Sequence[Array]
) -> tuple[int, Array]:
    """Rejection sampling (2211.17192)."""
    kept = _tokens_kept(source, ratios)
    return kept, _residual(p[kept], q[kept]) if kept < len(q) else p[kept]


def block(
    source: np.random.Generator, ratios: Array, p: Sequence[Array], q: Sequence[Array]
) -> tuple[int, Array]:
    """Block verification (2403.10444, algorithm 2)."""
    joint, kept = [1.0], 0
    for ratio in ratios:
        joint.append(min(1.0, joint[-1] * ratio))
    for at in range(1, len(q) + 1):
        rest = _residual(joint[at] * p[at], q[at]).sum() if at < len(q) else 1.0
        chance = rest / (rest + 1 - joint[at]) if at < len(q) else joint[at]
        kept = at if source.random() < chance else kept
    return kept, _residual(joint[kept] * p[kept], q[kept]) if kept < len(q) else p[kept]


def target_residual(
    source: np.random.Generator, ratios: Array, p: Sequence[Array], _q: Sequence[Array]
) -> tuple[int, Array]:
    """After a rejection the target's distribution, not the residual."""
    kept = _tokens_kept(source, ratios)
    return kept, p[kept]


def wrong_block(
    source: np.random.Generator, ratios: Array, p: Sequence[Array], q: Sequence[Array]
) -> tuple[int, Array]:
    """The longest beginning whose product of ratios exceeds that of the uniforms, then the residual
    of a single token, as in vllm-project/vllm-ascend#7807."""
    joint = chance = 1.0
    kept = 0
    for at, ratio in enumerate(ratios, 1):
        joint, chance = min(1.0, joint * ratio), chance * source.random()
        kept = at if joint >= chance else kept
    return kept, _residual(p[kept], q[kept]) if kept < len(q) else p[kept]


class Drafting:
    """A fake Client of a model of WORDS tokens, which drafts above temperature 0 with another one.
    ``apart``: standard deviation of ln q − ln p, before normalisation."""

    server = client.Server("http://stand-in")

    def __init__(self, verify: Verify, apart: float = 0.7) -> None:
        self._verify, self._apart = verify, apart

    def complete(
        self, prompt: Sequence[int], *, max_tokens: int, temperature: float, seed: int = 0, **_: Any
    ) -> Answer:
        source = np.random.default_rng([seed, *prompt])
        ids = tuple(prompt)
        while len(ids) < len(prompt) + max_tokens:
            if not temperature:
                ids = (*ids, int(law(ids).argmax()))
            elif len(ids) == len(prompt):  # the prefill has no draft
                ids = (*ids, _draw(source, law(ids)))
            else:
                ids = self._step(source, ids)
        new = ids[len(prompt) : len(prompt) + max_tokens]
        positions = tuple(
            next(each for each in _positions(ids[:end][-3:]) if each.key == id_)
            for end, id_ in enumerate(new, len(prompt))
        )
        return Answer("", "length", new, logprobs=positions)

    def _step(self, source: np.random.Generator, ids: tuple[int, ...]) -> tuple[int, ...]:
        drafted: list[int] = []
        q: list[Array] = []
        for _ in range(K):
            q.append(law((*ids, *drafted), self._apart))
            drafted.append(_draw(source, q[-1]))
        p = [law((*ids, *drafted[:at])) for at in range(K + 1)]
        ratios = np.array([p[at][id_] / q[at][id_] for at, id_ in enumerate(drafted)])
        kept, weights = self._verify(source, ratios, p, q)
        return (*ids, *drafted[:kept], _draw(source, weights))


def law(ids: tuple[int, ...], apart: float = 0.0) -> Array:
    """Return the probabilities after the last three of these tokens."""
    return _law(ids[-3:], apart)


@cache
def _law(last: tuple[int, ...], apart: float) -> Array:
    source = np.random.default_rng(last)  # after some tokens the next one is nearly certain
    z = source.uniform(1, 4) * source.normal(size=WORDS)
    p: Array = np.exp(z + apart * source.normal(size=WORDS))
    return p / p.sum()


@cache
def _positions(last: tuple[int, ...]) -> tuple[Position, ...]:
    """Return what is reported of each token, the likeliest ones first."""
    p = _law(last, 0.0)
    rows = [Position("", float(np.log(p[id_])), key=int(id_)) for id_ in np.argsort(-p)]
    return tuple(each._replace(top=tuple(rows)) for each in rows)


def _draw(source: np.random.Generator, weights: Array) -> int:
    total = weights.cumsum()
    return int(np.searchsorted(total, source.random() * total[-1], side="right"))
