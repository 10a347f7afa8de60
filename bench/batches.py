"""``python -m bench.batches``: how many tokens a second batches of several sizes write, and whether
they write what single runs write. Run it with OMP_NUM_THREADS=1 beside other work."""

from __future__ import annotations

import math
import random
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from bench.common.command import Command
from bench.common.decoding import DRAFTERS, REAL_PROMPTS, Ours, bundled, mixed_prompts, real
from bench.common.report import BenchReport, MeasuredFigure
from mars_core.session import Session
from mars_core.types import PromptConfig

# tokens a second beside single runs: drafter, slots, of the bundled pair, of the real one
GOALS = {("none", 8): (4.0, 4.0), ("draft model", 8): (3.0, 2.2), ("EAGLE-3 tree", 8): (2.5, 2.5)}


def batches(
    methods: Mapping[str, Ours],
    slots: Sequence[int],
    prompts: Sequence[PromptConfig],
    rounds: int,
    *,
    goals: Mapping[tuple[str, int], float] | None = None,
    until: float = math.inf,
) -> Iterator[MeasuredFigure]:
    """Of every method: tokens a second for each number of slots, the first of which is 1, in random
    order in every round, and relative to a single run's in the same round. The round during which
    ``time.perf_counter`` passes the method's share of the time until ``until`` is its last one."""
    for at, (name, method) in enumerate(methods.items()):
        now = time.perf_counter()
        ends = now + (until - now) / (len(methods) - at)
        speeds, texts = _speeds(method, slots, prompts, rounds, ends)
        for number in slots:
            beside = [each / single for each, single in zip(speeds[number], speeds[1], strict=True)]
            differ = sum(one != other for one, other in zip(texts[number], texts[1], strict=True))
            note = f"{median(speeds[number]):.0f} tokens/s; {differ} of {len(prompts)} texts differ"
            least = (goals or {}).get((name, number))
            yield MeasuredFigure(
                f"{name}: {number} slots / single runs", median(beside), "×", note, least=least
            )


def _speeds(
    method: Ours, slots: Sequence[int], prompts: Sequence[PromptConfig], rounds: int, until: float
) -> tuple[dict[int, list[float]], dict[int, list[tuple[int, ...]]]]:
    """By number of slots: tokens per second of each round, and the texts of the last one."""
    session = Session(method.pair)
    configs = [method.config(prompt, seed) for seed, prompt in enumerate(prompts)]
    speeds = defaultdict[int, list[float]](list)
    texts: dict[int, list[tuple[int, ...]]] = {}
    for number in slots:
        for _ in session.together(configs[:number], number, telemetry=method.telemetry):
            pass  # kernels, caches and CUDA graphs exist before timed runs
    for _ in range(rounds):
        for number in random.sample(slots, len(slots)):
            started, written = time.perf_counter(), dict[int, tuple[int, ...]]()
            for at, run in session.together(configs, number, telemetry=method.telemetry):
                written[at] = run.trace().token_ids
            seconds = time.perf_counter() - started
            texts[number] = [written[at] for at in range(len(configs))]
            speeds[number].append(sum(map(len, texts[number])) / seconds)
        if time.perf_counter() > until:
            break
    return speeds, texts


def main(arguments: Sequence[str] | None = None) -> int:
    command = Command(
        "bench.batches", __doc__, pair=("bundled", "real"), prompts=16, rounds=3, max_new_tokens=64
    )
    options = command.read(arguments)
    own = options.pair == "bundled"
    pair = (bundled if own else real)(device="cpu")
    names = ["none", "draft model", "EAGLE-3 chain", "EAGLE-3 tree", "n-grams"]
    if pair.draft is None:
        names.remove("draft model")
    methods = {
        name: Ours(pair, None, DRAFTERS[name], 0.0, options.max_new_tokens) for name in names
    }
    prompts = mixed_prompts(options.prompts)
    if not own:
        prompts = [REAL_PROMPTS[at % len(REAL_PROMPTS)] for at in range(options.prompts)]
    goals = {of: both[not own] for of, both in GOALS.items()}
    figures = list(batches(methods, (1, 4, 8, 16), prompts, options.rounds, goals=goals))
    note = "tokens per second of all texts together, prompts included; ratios of each round"
    report = BenchReport("Batches", [note], figures, device=pair.device)
    return command.finish(report, f"batches-{options.pair}")


if __name__ == "__main__":
    sys.exit(main())
