"""Interleaved timing: every prompt is decoded by every method in random order, several rounds;
ratios are paired by prompt and round.

Imports neither torch nor models: stored runs are evaluated with the same functions as new ones.
"""

from __future__ import annotations

import hashlib
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from bench.common.report import ResultTable, Spread, spread
from mars_core.types import PromptConfig

WARM_UP_PROMPTS = 2


@dataclass(frozen=True, slots=True)
class Decoded:
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


Samples = Mapping[str, Sequence[TimedSample]]  # of every method, one for each prompt and round


def interleaved(
    methods: Mapping[str, Method],
    prompts: Sequence[PromptConfig],
    rounds: int,
    *,
    warm_up: int = WARM_UP_PROMPTS,
    until: float = math.inf,
    clock: Callable[[], float] = time.perf_counter,
) -> Samples:
    """Decodes all prompts by all methods. Seeds are the round numbers; the order of methods is
    random per prompt. The prompt during which ``time.perf_counter`` passes ``until`` is the last
    one. ``clock``: wall or process time in seconds."""
    for prompt in prompts[:warm_up]:
        for method in methods.values():
            method(prompt, 0)
    samples: dict[str, list[TimedSample]] = {name: [] for name in methods}
    order = random.Random(0)
    for turn in range(rounds):
        for number, prompt in enumerate(prompts):
            for name in order.sample(list(methods), len(methods)):
                started = clock()
                decoded = methods[name](prompt, turn)
                seconds = clock() - started
                samples[name].append(
                    TimedSample(
                        number, turn, seconds, len(decoded.ids), decoded.steps, digest(decoded.ids)
                    )
                )
            if time.perf_counter() > until:
                return samples
    return samples


def digest(ids: Sequence[int]) -> str:
    """A hash of token ids."""
    return hashlib.sha256(" ".join(map(str, ids)).encode()).hexdigest()[:16]


def paired(samples: Samples, method: str, baseline: str) -> list[float]:
    """The ratios of the speeds, method / baseline, of the same prompt and round. Raises ValueError
    for a missing method or run."""
    others = {(each.prompt, each.round): each for each in samples.get(baseline, ())}
    taken = samples.get(method, ())
    if not taken or {(each.prompt, each.round) for each in taken} != {*others}:
        raise ValueError(f"{method} and {baseline} have no runs of the same prompts")
    return [each.speed / others[each.prompt, each.round].speed for each in taken]


def ratio(samples: Samples, method: str, baseline: str) -> Spread:
    """Median and quartiles of the ratios of all prompts and rounds."""
    return spread(paired(samples, method, baseline))


def same_outputs(samples: Samples, method: str, baseline: str) -> tuple[int, int]:
    """Number of outputs that are equal token for token, and number of outputs."""
    others = {(sample.prompt, sample.round): sample.digest for sample in samples[baseline]}
    taken = samples[method]
    return sum(sample.digest == others[sample.prompt, sample.round] for sample in taken), len(taken)


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
        same, count = same_outputs(samples, name, baseline)
        beside, tau = f"{ratio(samples, name, baseline)}×", overall_tau(taken)
        rows.append((name, median_speed(taken), beside, tau, f"{same} of {count}"))
    heads = ("method", "tokens/s (median)", f"× {baseline}", "τ", "same texts")
    return ResultTable(heads, rows, title)
