"""``python -m bench``: our decoding beside transformers' and, on the real pair, llama.cpp's, in one
interleaved run.

llama.cpp is measured where ``make llama`` has made its environment.
Prints the report and writes it to bench/results/. Exit status 1 if outputs differ that must be
equal.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

import torch

from bench.common.command import Options, Reports, measurement
from bench.common.decoding import DRAFTERS, Ours, loaded, prompts_for
from bench.common.measure import (
    Method,
    Samples,
    interleaved,
    paired,
    ratio,
    same_outputs,
    speed_table,
)
from bench.common.peers import LLAMA, folder, greedy, llama_server, opened
from bench.common.report import BenchReport, Figures, MeasuredFigure
from mars_core.models import Pair
from mars_core.models.memory import dtype_name
from mars_core.models.source import SOURCE
from mars_core.rules import RULES

GENERATE = "transformers generate, float32"
GOALS = {  # of the real pair, at temperature 0: method, baseline, least ratio
    ("none", GENERATE): 2.5,
    ("none", "transformers generate, bfloat16"): 2.0,
    ("none", "llama.cpp"): 0.95,
    ("best", "llama.cpp"): 1.4,
    ("best", "none"): 1.6,
}


def ours(pair: Pair, temperature: float, tokens: int) -> dict[str, Method]:
    """Return our methods by name; ``none`` first, then strict and MARS with each drafter that the
    pair has."""
    there = {"model": pair.draft is not None, "eagle3": pair.head is not None, "ngram": True}
    methods: dict[str, Method] = {"none": Ours(pair, "", DRAFTERS["none"], temperature, tokens)}
    for name, usual in DRAFTERS.items():
        drafter = replace(usual, k=pair.spec.k)
        relaxes = drafter.tree is None and drafter.kind != "ngram"
        for rule in ("strict", "mars") if relaxes else ("strict",):
            if there.get(drafter.kind):
                methods[f"{rule}, {name}"] = Ours(pair, rule, drafter, temperature, tokens)
    return methods


def peers(pair: Pair, tokens: int) -> dict[str, Method]:
    """Return transformers' generation in both dtypes, on models as it loads them."""
    methods = {}
    for name, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
        decoder = greedy(opened(pair.spec.target, dtype), pair.tokenizer, tokens)
        methods[f"transformers generate, {name}"] = decoder
    return methods


def goals(samples: Samples) -> Figures:
    """Yield the goals of the measured methods. ``best``: the lossless one with a drafter that is
    fastest."""
    lossless = [name for name in samples if name.startswith("strict")]
    best = max(lossless, key=lambda name: ratio(samples, name, "none").median)
    for (method, baseline), least in GOALS.items():
        if baseline in samples:
            name = best if method == "best" else method
            ratios = paired(samples, name, baseline)
            yield MeasuredFigure.of(f"{name} / {baseline}", ratios, "×", least=least)


def unequal(samples: Samples, *, trees: bool) -> bool:
    """Return whether a lossless method wrote another text than ``none``. ``trees``: of trees too,
    where passes are exact for them; chains always are."""
    return any(
        same_outputs(samples, name, "none") < len(taken)
        for name, taken in samples.items()
        if name.startswith("strict") and (trees or "tree" not in name)
    )


@measurement("bench", __doc__, pair=("real", "bundled"), prompts=8, rounds=1, max_new_tokens=128)
def main(options: Options) -> Reports:
    tokens, rounds, is_real = options.max_new_tokens, options.rounds, options.pair == "real"
    pair, prompts = loaded(options.pair), prompts_for(options.pair, options.prompts)
    tables, figures, data, failed = [], list[MeasuredFigure](), {}, False
    for temperature in (0.0, 1.0):
        methods = ours(pair, temperature, tokens)
        with ExitStack() as running:
            if not temperature:
                methods = peers(pair, tokens) | methods
                if is_real and LLAMA.exists():
                    file = folder(pair.spec.target) / SOURCE
                    server = llama_server(file, pair.tokenizer, tokens)
                    methods["llama.cpp"] = running.enter_context(server)
            samples = interleaved(methods, prompts, rounds)
        title = f"Temperature {temperature:g}"
        tables.append(speed_table(samples, "none" if temperature else GENERATE, title))
        figures += goals(samples) if is_real and not temperature else []
        data[title] = {name: [each._asdict() for each in taken] for name, taken in samples.items()}
        failed |= unequal(samples, trees=pair.shapes.kernels or pair.dtype == torch.float32)
    notes = [
        f"dtype {dtype_name(pair.dtype)}, {len(prompts)} prompts × {rounds} rounds of at most {tokens} "
        "tokens, interleaved; median (quartiles) of the ratios, prompt by prompt",
        f"K = {pair.spec.k}, mars with θ = {RULES['mars'].values({})['theta']:g}",
    ]
    work = {"prompts": [prompt.text for prompt in prompts], "samples": data}
    title = f"Speed of the {options.pair} pair"
    yield BenchReport(
        title, notes, figures, tables, work, device=pair.device, failed=failed, name=options.pair
    )


if __name__ == "__main__":
    raise SystemExit(main())
