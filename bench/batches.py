"""``python -m bench.batches``: how many tokens a second batches of several sizes write, and whether
they write what single runs write; transformers' generation too. Run it with OMP_NUM_THREADS=1 beside other work."""

from __future__ import annotations

import math
import random
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median

import torch

from bench.common.command import Command
from bench.common.decoding import DRAFTERS, REAL_PROMPTS, Ours, bundled, mixed_prompts, real
from bench.common.peers import generation, opened
from bench.common.report import BenchReport, MeasuredFigure
from mars_core.models import Pair
from mars_core.models.gguf import weights
from mars_core.session import Session
from mars_core.text.prompting import encode
from mars_core.types import PromptConfig

Ids = tuple[int, ...]
Writer = Callable[[int, int | None], list[Ids]]  # slots, number of texts (None: all) → texts
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
        yield from _figures(name, _writer(method, prompts), slots, rounds, ends, goals or {})


def _writer(method: Ours, prompts: Sequence[PromptConfig]) -> Writer:
    session = Session(method.pair)
    configs = [method.config(prompt, seed) for seed, prompt in enumerate(prompts)]

    def write(slots: int, count: int | None) -> list[Ids]:
        runs = session.together(configs[:count], slots, telemetry=method.telemetry)
        written = {at: run.trace().token_ids for at, run in runs}
        return [written[at] for at in range(len(written))]

    return write


def _generated(pair: Pair, prompts: Sequence[PromptConfig], new: int) -> Writer:
    """transformers' generation, on the model as it loads it in float32: each batch is as long as
    its longest text."""
    target = opened(weights(pair.spec.target, lambda _: None)[0], torch.float32)
    decode = generation(target, target.generation_config.eos_token_id)
    ids = [encode(pair.tokenizer, prompt) for prompt in prompts]

    def write(slots: int, count: int | None) -> list[Ids]:
        some = ids[:count]
        parts = (decode(some[at : at + slots], new) for at in range(0, len(some), slots))
        return [each for part in parts for each in part]

    return write


def _figures(
    name: str,
    write: Writer,
    slots: Sequence[int],
    rounds: int,
    until: float,
    goals: Mapping[tuple[str, int], float],
) -> Iterator[MeasuredFigure]:
    speeds, texts = _speeds(write, slots, rounds, until)
    for number in slots:
        beside = [each / single for each, single in zip(speeds[number], speeds[1], strict=True)]
        differ = sum(one != other for one, other in zip(texts[number], texts[1], strict=True))
        speed, least = median(speeds[number]), goals.get((name, number))
        note = f"{speed:.0f} tokens/s; {differ} of {len(texts[1])} texts differ"
        figure = f"{name}: {number} slots / single runs"
        yield MeasuredFigure(figure, median(beside), "×", note, least=least)


def _speeds(
    write: Writer, slots: Sequence[int], rounds: int, until: float
) -> tuple[dict[int, list[float]], dict[int, list[Ids]]]:
    """By number of slots: tokens per second of each round, and the texts of the last one."""
    speeds, texts = defaultdict[int, list[float]](list), dict[int, list[Ids]]()
    for number in slots:
        write(number, number)  # kernels, caches and CUDA graphs exist before timed runs
    for _ in range(rounds):
        for number in random.sample(slots, len(slots)):
            started = time.perf_counter()
            texts[number] = write(number, None)
            seconds = time.perf_counter() - started
            speeds[number].append(sum(map(len, texts[number])) / seconds)
        if time.perf_counter() > until:
            break
    return speeds, texts


def main(arguments: Sequence[str] | None = None) -> int:
    command = Command(
        "bench.batches", __doc__, pair=("bundled", "real"), prompts=16, rounds=3, max_new_tokens=64
    )
    options = command.read(arguments)
    is_bundled = options.pair == "bundled"
    pair = (bundled if is_bundled else real)(device="cpu")
    names = ["none", "draft model", "EAGLE-3 chain", "EAGLE-3 tree", "n-grams"]
    if pair.draft is None:
        names.remove("draft model")
    methods = {
        name: Ours(pair, None, DRAFTERS[name], 0.0, options.max_new_tokens) for name in names
    }
    prompts = mixed_prompts(options.prompts)
    if not is_bundled:
        prompts = [REAL_PROMPTS[at % len(REAL_PROMPTS)] for at in range(options.prompts)]
    goals = {of: both[not is_bundled] for of, both in GOALS.items()}
    slots, rounds = (1, 4, 8, 16), options.rounds
    figures = list(batches(methods, slots, prompts, rounds, goals=goals))
    write = _generated(pair, prompts, options.max_new_tokens)
    figures += _figures("transformers generate, float32", write, slots, rounds, math.inf, {})
    note = "tokens per second of all texts together, prompts included; ratios of each round"
    report = BenchReport("Batches", [note], figures, device=pair.device)
    return command.finish(report, f"batches-{options.pair}")


if __name__ == "__main__":
    sys.exit(main())
