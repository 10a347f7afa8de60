"""``python -m bench``: our decoding beside transformers' and, on the real pair, llama.cpp's, in one
interleaved run.

llama.cpp is measured where ``make llama`` has made its environment.
Prints the report and writes it to bench/results/. Exit status 1 if outputs differ that must be
equal.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from bench.common.command import Command
from bench.common.decoding import DRAFTERS, REAL_PROMPTS, Ours, bundled, mixed_prompts, real
from bench.common.measure import (
    Method,
    Samples,
    interleaved,
    paired,
    ratio,
    same_outputs,
    speed_table,
)
from bench.common.peers import LLAMA, greedy, llama_server, opened, prompted
from bench.common.report import BenchReport, MeasuredFigure
from mars_core.models import Pair
from mars_core.models.gguf import weights
from mars_core.models.source import SOURCE
from mars_core.rules import RULES
from mars_core.types import DrafterConfig, RuleConfig

GENERATE = "transformers generate, float32"
GOALS = {  # of the real pair, at temperature 0: method, baseline, least ratio
    ("none", GENERATE): 2.5,
    ("none", "transformers generate, bfloat16"): 2.0,
    ("best", "llama.cpp"): 1.0,
    ("best", "none"): 1.6,
}


def ours(pair: Pair, temperature: float, tokens: int) -> dict[str, Method]:
    """By name; ``none`` first, then strict and MARS with each drafter that the pair has."""

    def method(rule: str, drafter: DrafterConfig) -> Method:
        return Ours(pair, RuleConfig(rule), drafter, temperature, tokens)

    there = {"model": pair.draft is not None, "eagle3": pair.head is not None, "ngram": True}
    by_name = {"none": method("none", DRAFTERS["none"])}
    for name, usual in DRAFTERS.items():
        if not there.get(usual.kind):
            continue
        drafter = replace(usual, k=pair.spec.k)
        by_name[f"strict, {name}"] = method("strict", drafter)
        if drafter.tree is None and drafter.kind != "ngram":
            by_name[f"mars, {name}"] = method("mars", drafter)
    return by_name


def folder(pair: Pair) -> Path:
    """The target's, in Hugging Face's format."""
    return weights(pair.spec.target, lambda _: None)[0]


def peers(pair: Pair, tokens: int) -> dict[str, Method]:
    """transformers' generation in both dtypes, on models as it loads them."""
    by_name = {}
    for name, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
        target = opened(folder(pair), dtype)
        eos: Any = target.generation_config.eos_token_id
        plain = greedy(target, eos)
        by_name[f"transformers generate, {name}"] = prompted(plain, pair.tokenizer, tokens)
    return by_name


def goals(samples: Samples) -> list[MeasuredFigure]:
    """Of the methods that were measured. ``best``: the lossless one with a drafter that is
    fastest."""
    lossless = [name for name in samples if name.startswith("strict")]
    best = max(lossless, key=lambda name: ratio(samples, name, "none").median)
    figures = []
    for (method, baseline), least in GOALS.items():
        name = best if method == "best" else method
        if baseline in samples:
            ratios = paired(samples, name, baseline)
            figures.append(MeasuredFigure.of(f"{name} / {baseline}", ratios, "×", least=least))
    return figures


def main(arguments: Sequence[str] | None = None) -> int:
    command = Command(
        "bench", __doc__, pair=("real", "bundled"), prompts=8, rounds=1, max_new_tokens=128
    )
    options = command.read(arguments)
    actual, tokens, rounds = options.pair == "real", options.max_new_tokens, options.rounds
    pair = real() if actual else bundled()
    prompts = REAL_PROMPTS[: options.prompts] if actual else mixed_prompts(options.prompts)
    tables, figures, data, failed = [], list[MeasuredFigure](), {}, False
    for temperature in (0.0, 1.0):
        methods = ours(pair, temperature, tokens)
        with ExitStack() as running:
            if not temperature:
                methods = peers(pair, tokens) | methods
                if actual and LLAMA.exists():
                    server = running.enter_context(llama_server(folder(pair) / SOURCE))
                    methods["llama.cpp"] = prompted(server, pair.tokenizer, tokens)
            samples = interleaved(methods, prompts, rounds)
        title = f"Temperature {temperature:g}"
        tables.append(speed_table(samples, "none" if temperature else GENERATE, title))
        figures += goals(samples) if actual and not temperature else []
        data[title] = {name: [each._asdict() for each in taken] for name, taken in samples.items()}
        for name in samples:
            same, count = same_outputs(samples, name, "none")
            inexact = "tree" in name and pair.dtype != torch.float32  # only chains are exact
            exact = name.startswith("strict") and not inexact
            failed |= exact and same < count
    notes = [
        f"dtype {pair.dtype}, {len(prompts)} prompts × {rounds} rounds of at most {tokens} "
        "tokens, interleaved; median (quartiles) of the ratios, prompt by prompt",
        f"K = {pair.spec.k}, mars with θ = {RULES['mars'].values({})['theta']:g}",
    ]
    work = {"prompts": [prompt.text for prompt in prompts], "samples": data}
    title = f"Speed of the {options.pair} pair"
    report = BenchReport(title, notes, figures, tables, work, device=pair.device, failed=failed)
    return command.finish(report, options.pair)


if __name__ == "__main__":
    sys.exit(main())
