"""The parameters varied by ``bench.growth``, and its runs."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from bench.common.decoding import complete, config_of
from bench.common.shapes import small
from bench.coupled import coupled_pair, random_prompt
from bench.growth.curves import Sample
from bench.memory import peak_above
from mars_core.models import ModelPool, Pair
from mars_core.types import DrafterConfig, Summary, TreeShape

NOISE = 0.1  # of the pairs
VOCABULARY, PROMPT = 4096, 128  # tokens, where they do not vary
PAIRS = f"""random Llamas, width 256, 4 layers; {VOCABULARY} tokens of vocabulary and prompts of {PROMPT} tokens where these
  do not vary; rule strict, temperature 0; a draft model and a head of one layer"""


class Point(NamedTuple):
    vocabulary: int
    prompt: int  # tokens
    drafter: DrafterConfig


class Sweep(NamedTuple):
    title: str
    axis: str
    xs: tuple[int, ...]
    point: Callable[[int], Point]


CHAIN, TREE = DrafterConfig("model", k=5), DrafterConfig("eagle3", tree=TreeShape(24, 7, 4))
LENGTHS = (128, 256, 512, 1024, 2048, 4096, 8192)
SWEEPS: Mapping[str, Sweep] = {
    "context": Sweep("Context, draft model, K = 5", "prompt tokens", LENGTHS, lambda x: Point(VOCABULARY, x, CHAIN)),
    "context-tree": Sweep("Context, EAGLE-3 tree 24/7/4", "prompt tokens", LENGTHS, lambda x: Point(VOCABULARY, x, TREE)),
    "k": Sweep("K, draft model", "K", (1, 2, 3, 5, 8, 11, 15), lambda x: Point(VOCABULARY, PROMPT, DrafterConfig("model", k=x))),
    "tree": Sweep(
        "Tree size, EAGLE-3 head, depth 7, top-k 10", "drafted tokens", (8, 16, 24, 32, 40, 50, 60),
        lambda x: Point(VOCABULARY, PROMPT, DrafterConfig("eagle3", tree=TreeShape(x, 7, 10))),
    ),
    "vocabulary": Sweep(
        "Vocabulary, draft model, K = 5", "tokens of the vocabulary", (1000, 4000, 16000, 64000, 150000),
        lambda x: Point(x, PROMPT, CHAIN),
    ),
}  # fmt: skip
QUICK = 3  # points per sweep, the first ones


def pair_of(vocabulary: int, pool: ModelPool) -> Pair:
    """A pair on the device and in the dtype of the pool."""
    return coupled_pair(small(vocabulary), NOISE, pool.device, pool.dtype)


def decode(pair: Pair, point: Point, tokens: int, seed: int) -> Summary:
    """One run at temperature 0 on a prompt of random words, a different one for every seed."""
    prompt = random_prompt(point.prompt, seed, min(1000, point.vocabulary))
    return complete(pair, config_of(pair, prompt, point.drafter, 0.0, tokens, seed)).summary


def measure(pairs: Mapping[int, Pair], points: Sequence[Point], tokens: int, repetitions: int) -> list[list[Sample]]:
    """Samples by point; every repetition uses all points in random order, after one warm-up run of each."""
    order, samples = random.Random(0), [list[Sample]() for _ in points]
    for repetition in range(-1, repetitions):
        for at in order.sample(range(len(points)), len(points)):
            found = decode(pairs[points[at].vocabulary], points[at], tokens, repetition + 1)
            if repetition >= 0:
                decode_s = found.wall_s - found.prefill_s
                samples[at].append(Sample(decode_s, found.prefill_s, found.new_tokens, found.steps))
    return samples


def peak(pair: Pair, point: Point, tokens: int, seed: int) -> int:
    """Peak bytes of one run above those before it, after a small warm-up run."""
    decode(pair, Point(point.vocabulary, 8, point.drafter), 8, seed)
    return peak_above(pair.device, lambda: decode(pair, point, tokens, seed))


def peak_on_cpu(sweep: str, x: int, tokens: int, seed: int) -> int:
    """The same, with a new pair in this process."""
    point = SWEEPS[sweep].point(x)
    return peak(pair_of(point.vocabulary, ModelPool(device="cpu")), point, tokens, seed)
