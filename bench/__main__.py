"""``python -m bench``: our decoding beside transformers' and, on the real pair, llama.cpp's and
vLLM's, in one interleaved run.

Servers are measured where their environments are: ``make llama`` and ``make vllm`` make them.
Prints the report and writes it to bench/results/. Exit status 1 if outputs differ that must be
equal.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from bench.common.command import measurement
from bench.common.decoding import DRAFTERS, REAL_PROMPTS, Ours, bundled, mixed_prompts, real
from bench.common.measure import Method, Samples, median_speed, overall_tau, ratio, same_outputs
from bench.common.measure import interleaved as timed
from bench.common.peers import LLAMA, greedy, llama_server, opened, prompted
from bench.common.report import Figure, Report, Table
from mars_core.models import Pair
from mars_core.models.gguf import weights
from mars_core.models.source import SOURCE
from mars_core.rules import RULES
from mars_core.types import DrafterConfig, DraftMode, RuleConfig

GENERATE = "transformers generate, float32"
LLAMA_KINDS = {"llama.cpp": "none", "llama.cpp, n-grams": "ngram"}
GOALS = {  # of the real pair, at temperature 0: method, baseline, least ratio
    ("none", GENERATE): 2.5,
    ("none", "transformers generate, bfloat16"): 2.0,
    ("best", "llama.cpp"): 1.0,
    ("best", "none"): 1.6,
}


def ours(pair: Pair, temperature: float, tokens: int) -> dict[str, Method]:
    """By name; ``none`` first, then strict and MARS with each drafter that the pair has."""
    found: dict[str, Method] = {
        "none": Ours(pair, RuleConfig("none"), DrafterConfig("none"), temperature, tokens)
    }
    kinds = {"none": True, "draft model": pair.draft is not None, "n-grams": True}
    for name, drafter in DRAFTERS.items():
        if name != "none" and kinds.get(name, pair.head is not None):
            found[f"strict, {name}"] = Ours(
                pair, RuleConfig("strict"), drafter, temperature, tokens
            )
            if drafter.tree is None and name != "n-grams":
                found[f"mars, {name}"] = Ours(
                    pair, RuleConfig("mars"), drafter, temperature, tokens
                )
                if temperature:
                    modes = (DraftMode.GREEDY, DraftMode.SAMPLED)
                    found |= {
                        f"strict, {name}, {mode}": Ours(
                            pair,
                            RuleConfig("strict"),
                            replace(drafter, mode=mode),
                            temperature,
                            tokens,
                        )
                        for mode in modes
                    }
    return found


def folder(pair: Pair) -> Path:
    """The target's, in Hugging Face's format."""
    return weights(pair.spec.target, lambda _: None)[0]


def peers(pair: Pair, tokens: int) -> dict[str, Method]:
    """transformers', on models as it loads them: generation in both dtypes, and assisted generation
    with the draft model or the prompt."""
    found = {}
    for dtype in (torch.float32, torch.bfloat16):
        target = opened(folder(pair), dtype)
        name = f"transformers generate, {str(dtype).removeprefix('torch.')}"
        found[name] = prompted(
            greedy(target, target.generation_config.eos_token_id), pair.tokenizer, tokens
        )
        if dtype is torch.float32:
            eos: Any = target.generation_config.eos_token_id
            lookup = greedy(target, eos, prompt_lookup_num_tokens=DRAFTERS["n-grams"].k)
            found["transformers prompt lookup, float32"] = prompted(lookup, pair.tokenizer, tokens)
    return found


def table(samples: Samples, baseline: str, title: str) -> Table:
    """Speeds, ratios to the baseline prompt by prompt, τ, and the outputs that are the
    baseline's."""
    rows = []
    for name, own in samples.items():
        same, count = same_outputs(samples, name, baseline)
        rows.append(
            (
                name,
                median_speed(own),
                f"{ratio(samples, name, baseline)}×",
                overall_tau(own),
                f"{same} of {count}",
            )
        )
    heads = ("method", "tokens/s (median)", f"× {baseline}", "τ", "same texts")
    return Table(heads, rows, title)


def goals(samples: Samples) -> list[Figure]:
    """Of the methods that were measured. ``best``: the lossless one with a drafter that is
    fastest."""
    lossless = [name for name in samples if name.startswith("strict")]
    best = max(lossless, key=lambda name: ratio(samples, name, "none").median)
    found = []
    for (method, baseline), least in GOALS.items():
        name = best if method == "best" else method
        if baseline in samples:
            own = ratio(samples, name, baseline)
            found.append(
                Figure(
                    f"{name} / {baseline}",
                    own.median,
                    "×",
                    f"{own.low:.2f} to {own.high:.2f}",
                    least=least,
                )
            )
    return found


@measurement("{pair}", pair=("real", "bundled"), prompts=8, rounds=1, max_new_tokens=128)
def main(options: Namespace) -> Report:
    actual = options.pair == "real"
    pair = real() if actual else bundled()
    prompts = REAL_PROMPTS[: options.prompts] if actual else mixed_prompts(options.prompts)
    tables, figures, data, failed = [], list[Figure](), {}, False
    for temperature in (0.0, 1.0):
        methods: Mapping[str, Method] = ours(pair, temperature, options.max_new_tokens)
        with ExitStack() as running:
            if not temperature:
                methods = {**peers(pair, options.max_new_tokens), **methods}
                for name, kind in LLAMA_KINDS.items() if actual and LLAMA.exists() else ():
                    server = running.enter_context(llama_server(folder(pair) / SOURCE, kind))
                    methods = {
                        **methods,
                        name: prompted(server, pair.tokenizer, options.max_new_tokens),
                    }
            samples = timed(methods, prompts, options.rounds)
        baseline = "none" if temperature else GENERATE
        tables.append(table(samples, baseline, f"Temperature {temperature:g}"))
        figures += goals(samples) if actual and not temperature else []
        data[f"temperature {temperature:g}"] = {
            name: [sample._asdict() for sample in own] for name, own in samples.items()
        }
        failed |= any(
            len({*same_outputs(samples, name, "none")}) > 1
            for name in samples
            if name.startswith("strict") and "sampled" not in name
        )
    notes = [
        f"dtype {pair.dtype}, {len(prompts)} prompts × {options.rounds} rounds of at most {options.max_new_tokens} tokens, interleaved; "
        "median (quartiles) of the ratios, prompt by prompt",
        f"K = {DRAFTERS['n-grams'].k}, mars with θ = {RULES['mars'].values({})['theta']:g}",
    ]
    work = {"prompts": [prompt.text for prompt in prompts], "samples": data}
    return Report(
        f"Speed of the {options.pair} pair",
        notes,
        figures,
        tables,
        work,
        device=pair.device,
        failed=failed,
    )
