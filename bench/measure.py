"""Interleaved timing: every prompt is decoded by every method in random order, several rounds; ratios are paired by prompt and round."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from bench.methods import Method
from mars_core.types import PromptConfig

WARM_UP_PROMPTS = 2


@dataclass(frozen=True, slots=True)
class Timing:
    """One method on all prompts. Speeds in tokens/s; ``ratio`` is to the baseline method, prompt by prompt and round by round."""

    name: str
    tokens_per_s: float  # median
    ratio: float  # median
    ratio_low: float  # first quartile
    ratio_high: float  # third quartile
    tau: float  # nan where a peer does not say
    tokens: int


@dataclass(frozen=True, slots=True)
class Sample:
    seconds: float
    ids: tuple[int, ...]
    steps: int


Samples = dict[str, dict[tuple[int, int], Sample]]  # method → (prompt, round) → sample


def interleaved(methods: Mapping[str, Method], prompts: Sequence[PromptConfig], rounds: int) -> Samples:
    """Seeds of the runs are the numbers of the rounds; the order of methods is drawn anew for every prompt."""
    for prompt in prompts[:WARM_UP_PROMPTS]:
        for method in methods.values():
            method(prompt, 0)
    samples: Samples = {name: {} for name in methods}
    order = random.Random(0)
    for turn in range(rounds):
        for number, prompt in enumerate(prompts):
            for name in order.sample(list(methods), len(methods)):
                started = time.perf_counter()
                decoded = methods[name](prompt, turn)
                samples[name][number, turn] = Sample(time.perf_counter() - started, decoded.ids, decoded.steps)
    return samples


def timings(samples: Samples, baseline: str) -> list[Timing]:
    """One row a method, against ``baseline``."""
    rows = []
    for name, own in samples.items():
        ratios = [_speed(sample) / _speed(samples[baseline][key]) for key, sample in own.items()]
        low, _, high = quantiles(ratios, n=4) if len(ratios) > 1 else (ratios[0],) * 3
        tokens = sum(len(sample.ids) for sample in own.values())
        steps = sum(sample.steps for sample in own.values())
        speed = median(map(_speed, own.values()))
        rows.append(Timing(name, speed, median(ratios), low, high, tokens / steps if steps else float("nan"), tokens))
    return rows


def ratio(samples: Samples, method: str, baseline: str) -> float:
    """Median of the paired speed ratios."""
    return median(_speed(sample) / _speed(samples[baseline][key]) for key, sample in samples[method].items())


def same_outputs(samples: Samples, method: str, baseline: str) -> tuple[int, int]:
    """How many outputs are equal token for token, of how many."""
    pairs = [(sample.ids, samples[baseline][key].ids) for key, sample in samples[method].items()]
    return sum(left == right for left, right in pairs), len(pairs)


def _speed(sample: Sample) -> float:
    return len(sample.ids) / sample.seconds
