"""Timing of single calls, and interleaved: every prompt is decoded by every method in random order,
several rounds; ratios are those of the same prompt and round."""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import NamedTuple, TypeVar

import torch

from bench.common.command import CPU
from bench.common.report import ResultTable, Spread, spread
from mars_core.decoder import synchronise
from mars_core.types import PromptConfig

WARM_UP_PROMPTS = 2
Work = TypeVar("Work")


class Decoded(NamedTuple):
    """The result of one call. ``steps`` is 0 where it is unknown."""

    ids: tuple[int, ...]
    steps: int


Method = Callable[[PromptConfig, int], Decoded]  # prompt, seed


class TimedSample(NamedTuple):
    """One method on one prompt in one round."""

    prompt: int
    round: int
    seconds: float
    tokens: int
    steps: int  # 0: unknown
    digest: str  # of the token ids

    @property
    def speed(self) -> float:
        """Tokens per second."""
        return self.tokens / self.seconds


# of every method, one for each prompt and round, in the same order
Samples = Mapping[str, Sequence[TimedSample]]


def interleaved(
    methods: Mapping[str, Callable[[Work, int], Decoded]],
    prompts: Sequence[Work],
    rounds: int,
    *,
    warm_up: int = WARM_UP_PROMPTS,
    clock: Callable[[], float] = time.perf_counter,
) -> Samples:
    """Decodes all prompts by all methods. Seeds are the round numbers; the order of methods is
    random per prompt. ``clock``: wall or process time in seconds."""
    for prompt in prompts[:warm_up]:
        for method in methods.values():
            method(prompt, 0)
    samples: dict[str, list[TimedSample]] = {name: [] for name in methods}
    order = random.Random(0)
    for turn in range(rounds):
        for number, prompt in enumerate(prompts):
            for name in order.sample(list(methods), len(methods)):
                started = clock()
                ids, steps = methods[name](prompt, turn)
                took = clock() - started
                sample = TimedSample(number, turn, took, len(ids), steps, digest(ids))
                samples[name].append(sample)
    return samples


def timed(work: Callable[[], object], repeats: int, device: torch.device = CPU) -> float:
    """Median seconds of ``repeats`` calls."""
    return median(seconds(work, device) for _ in range(repeats))


def seconds(work: Callable[[], object], device: torch.device = CPU) -> float:
    """Seconds of one call, including the device's work."""
    synchronise(device)
    started = time.perf_counter()
    work()
    synchronise(device)
    return time.perf_counter() - started


def digest(ids: Sequence[int]) -> str:
    """Return a hash of token ids."""
    return hashlib.sha256(" ".join(map(str, ids)).encode()).hexdigest()[:16]


def paired(samples: Samples, method: str, baseline: str) -> list[float]:
    """Return the ratios of the speeds, method / baseline, of the same prompt and round."""
    both = zip(samples[method], samples[baseline], strict=True)
    return [each.speed / other.speed for each, other in both]


def ratio(samples: Samples, method: str, baseline: str) -> Spread:
    """Median and quartiles of the ratios of all prompts and rounds."""
    return spread(paired(samples, method, baseline))


def same_outputs(samples: Samples, method: str, baseline: str) -> int:
    """Number of outputs that are equal token for token."""
    both = zip(samples[method], samples[baseline], strict=True)
    return sum(each.digest == other.digest for each, other in both)


def median_speed(samples: Sequence[TimedSample]) -> float:
    """Median tokens per second."""
    return median(each.speed for each in samples)


def overall_tau(samples: Sequence[TimedSample]) -> float | None:
    """Emitted tokens per target pass; None where the number of passes is unknown."""
    steps = sum(sample.steps for sample in samples)
    return sum(sample.tokens for sample in samples) / steps if steps else None


def speed_table(samples: Samples, baseline: str, title: str) -> ResultTable:
    """Speeds, ratios to the baseline prompt by prompt, τ, and the outputs that are the
    baseline's."""
    rows = []
    for name, taken in samples.items():
        beside, same = ratio(samples, name, baseline), same_outputs(samples, name, baseline)
        texts = f"{same} of {len(taken)}"
        rows.append((name, median_speed(taken), f"{beside}×", overall_tau(taken), texts))
    heads = ("method", "tokens/s (median)", f"× {baseline}", "τ", "same texts")
    return ResultTable(heads, rows, title)
