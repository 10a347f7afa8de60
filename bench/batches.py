"""``python -m bench.batches``: how many tokens a second batches of several sizes write, and whether
they write what single runs write; transformers' generation too, and on the bundled pair vLLM's.

Run it with OMP_NUM_THREADS=1 beside other work."""

from __future__ import annotations

import math
import random
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median

import torch

from bench.common.command import Command
from bench.common.decoding import DRAFTERS, REAL_PROMPTS, Ours, bundled, mixed_prompts, real
from bench.common.peers import VLLM, generation, opened, vllm_batches
from bench.common.report import BenchReport, MeasuredFigure
from mars_core.models import Pair
from mars_core.models.gguf import weights
from mars_core.session import Session
from mars_core.text.prompting import encode
from mars_core.types import ModelRef, PromptConfig

Ids = tuple[int, ...]
Writer = Callable[[int, int | None], list[Ids]]  # slots, number of texts (None: all) → texts
Texts = dict[str, list[Ids]]
# tokens a second beside single runs: drafter, slots, of the bundled pair, of the real one
GOALS = {("none", 8): (4.0, 4.0), ("draft model", 8): (3.0, 2.2), ("EAGLE-3 tree", 8): (2.5, 2.5)}
VLLM_SLOTS, VLLM_GOAL = 16, 1.2  # tokens a second beside vLLM's


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
    target = opened(_folder(pair.spec.target), torch.float32)
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
    writers = {str(each): (each, write) for each in slots}
    measured = _measured(writers, rounds, until)
    for number in slots:
        figure, least = f"{name}: {number} slots / single runs", goals.get((name, number))
        yield _relative(figure, measured, str(number), "1", least)


def _beside_vllm(
    name: str, ours: Ours, prompts: Sequence[PromptConfig], rounds: int
) -> MeasuredFigure:
    """Of batches of VLLM_SLOTS, ours and vLLM's in random order in every round."""
    spec, drafter = ours.pair.spec, ours.drafter
    draft = str(_folder(spec.draft)) if spec.draft and drafter.kind == "model" else ""
    ids = [encode(ours.pair.tokenizer, prompt) for prompt in prompts]
    with vllm_batches(_folder(spec.target), draft, drafter.k, VLLM_SLOTS) as decode:
        writers: dict[str, tuple[int, Writer]] = {
            "ours": (VLLM_SLOTS, _writer(ours, prompts)),
            "vLLM's": (VLLM_SLOTS, lambda _, count: decode(ids[:count], ours.tokens)),
        }
        measured = _measured(writers, rounds, math.inf)
    figure = f"{name}: {VLLM_SLOTS} slots, ours / vLLM's"
    return _relative(figure, measured, "ours", "vLLM's", VLLM_GOAL)


def _folder(model: ModelRef) -> Path:
    return weights(model, lambda _: None)[0]


def _measured(
    writers: Mapping[str, tuple[int, Writer]], rounds: int, until: float
) -> tuple[dict[str, list[float]], Texts]:
    """Tokens per second of each round with these slots, and the texts of the last one."""
    speeds, texts = defaultdict[str, list[float]](list), Texts()
    for number, write in writers.values():
        write(number, number)  # kernels, caches and CUDA graphs exist before timed runs
    for _ in range(rounds):
        for name in random.sample(list(writers), len(writers)):
            number, write = writers[name]
            started = time.perf_counter()
            texts[name] = write(number, None)
            seconds = time.perf_counter() - started
            speeds[name].append(sum(map(len, texts[name])) / seconds)
        if time.perf_counter() > until:
            break
    return speeds, texts


def _relative(
    figure: str,
    measured: tuple[Mapping[str, Sequence[float]], Texts],
    name: str,
    other: str,
    goal: float | None,
) -> MeasuredFigure:
    """The median of the rounds' ratios of one writer's speed to another's."""
    speeds, texts = measured
    ratio = median(a / b for a, b in zip(speeds[name], speeds[other], strict=True))
    differ = sum(a != b for a, b in zip(texts[name], texts[other], strict=True))
    note = f"{median(speeds[name]):.0f} tokens/s; {differ} of {len(texts[name])} texts differ"
    return MeasuredFigure(figure, ratio, "×", note, least=goal)


def main(arguments: Sequence[str] | None = None) -> int:
    command = Command(
        "bench.batches", __doc__, pair=("bundled", "real"), prompts=16, rounds=3, max_new_tokens=64
    )
    options = command.read(arguments)
    is_bundled = options.pair == "bundled"
    pair = (bundled if is_bundled else real)(device="cpu")
    names = ["none", "draft model", "EAGLE-3 chain", "EAGLE-3 tree"]
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
    if is_bundled and VLLM.exists():
        names = ["none", "draft model"]
        figures += [_beside_vllm(name, methods[name], prompts, rounds) for name in names]
    note = "tokens per second of all texts together, prompts included; ratios of each round"
    report = BenchReport("Batches", [note], figures, device=pair.device)
    return command.finish(report, f"batches-{options.pair}")


if __name__ == "__main__":
    sys.exit(main())
