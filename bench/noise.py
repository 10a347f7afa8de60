"""``python -m bench.noise``: what coupled drafts accept and MARS gains over them, the cost of the
noise, and draws that rounding changes.

``--model``: a folder or Hub id of a real model, for the draws and the cost with its vocabulary;
without it they are left out.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from statistics import median

import torch
from torch import Tensor

from bench.common.command import measurement
from bench.common.decoding import DRAFTERS, Ours, bundled, complete, config_of, mixed_prompts
from bench.common.measure import (
    Sample,
    Samples,
    interleaved,
    overall_tau,
    paired,
    ratio,
    same_outputs,
)
from bench.common.report import Figure, Report, Table
from mars_core.decoder import CacheSize, open_cache
from mars_core.models import ModelPool, Pair, custom_pair
from mars_core.sampling import Use, chance, draw, noise, target_distribution, words
from mars_core.session import Session
from mars_core.types import DraftMode, PromptConfig, RuleConfig, Sampling

TEMPERATURES = (0.6, 0.8, 1.0)
K, WIDE = 5, 49_152  # drafted tokens; the vocabulary of the goal
CHUNK = 50  # noise vectors drawn at a time
QUESTION = "Explain in a few sentences how a sailing boat can move against the wind."


def methods(pair: Pair, temperature: float, tokens: int) -> Mapping[str, Ours]:
    found = {"none": Ours(pair, RuleConfig("none"), DRAFTERS["none"], temperature, tokens)}
    for drafts in ("draft model", "EAGLE-3 chain", "EAGLE-3 tree"):
        for mode in DraftMode:
            if mode is not DraftMode.SAMPLED or drafts == "draft model":
                drafter = replace(DRAFTERS[drafts], mode=mode)
                for rule in ("strict", "mars"):
                    found[f"{drafts}, {mode}, {rule}"] = Ours(
                        pair, RuleConfig(rule), drafter, temperature, tokens
                    )
    return found


def speed_table(temperature: float, samples: Samples) -> Table:
    rows = []
    for name, own in samples.items():
        same, count = same_outputs(samples, name, "none")
        rows.append(
            (name, str(ratio(samples, name, "none")), overall_tau(own), f"{same} of {count}")
        )
    return Table(
        ("drafts, rule", "speed over none", "τ", "texts equal to none"),
        rows,
        f"Temperature {temperature:g}",
    )


def speed(name: str, samples: Samples, method: str, baseline: str) -> Figure:
    """The speed of a method over another's, text by text."""
    return Figure.of(
        f"speed, {name}", chain.from_iterable(paired(samples, method, baseline).values()), "×"
    )


def tokens_per_s(samples: Sequence[Sample]) -> float:
    """Of all texts together."""
    return sum(each.tokens for each in samples) / sum(each.seconds for each in samples)


def own_text(pair: Pair, prompt: PromptConfig, tokens: int, seed: int) -> tuple[Tensor, int]:
    """The prompt with the text that the target writes alone at temperature 1, [n], and the place
    before its first token."""
    config = config_of(pair, prompt, DRAFTERS["none"], 1.0, tokens, seed)
    start = len(Session(pair).check(config).prompt_ids)
    trace = complete(pair, config)
    return torch.tensor([*trace.prompt_ids, *trace.token_ids]), start - 1


@torch.inference_mode()
def distributions(
    pair: Pair, prompt: PromptConfig, tokens: int, seed: int
) -> tuple[Tensor, Tensor]:
    """p and q at every position of such a text, [n, V] float64."""
    ids, start = own_text(pair, prompt, tokens, seed)
    assert pair.draft is not None
    caches = [
        open_cache(model, CacheSize(len(ids), len(ids))) for model in (pair.target, pair.draft)
    ]
    p, q = (
        cache.forward(ids, 0)[start:-1, : pair.vocabulary].double().softmax(-1) for cache in caches
    )
    return p, q


def acceptance(pair: Pair, prompts: Sequence[PromptConfig], tokens: int) -> list[Figure]:
    """The closed form Σ_a 1/Σ_i max(p_i/p_a, q_i/q_a) on the target's own texts beside draws with
    many noise vectors."""
    closed, drawn, greedy, most = list[float](), list[float](), list[float](), list[float]()
    for number, prompt in enumerate(prompts):
        for at, (p, q) in enumerate(zip(*distributions(pair, prompt, tokens, number), strict=True)):
            closed.append(float((p / torch.maximum(p, q * (p / q)[:, None]).sum(-1)).sum()))
            given = noise(_keys(number, 1000 * at, 200), len(p))
            same = draw(p[None], given).ids == draw(q[None], given).ids
            drawn.append(float(same.double().mean()))
            greedy.append(float(p[q.argmax()]))
            most.append(float(torch.minimum(p, q).sum()))
    mean = [sum(values) / len(values) for values in (closed, drawn, greedy, most)]
    error = (
        torch.tensor([a - b for a, b in zip(closed, drawn, strict=True)]).std() / len(closed) ** 0.5
    )
    note = f"{len(closed)} positions"
    return [
        Figure("coupled draft accepted, closed form", mean[0], "", note),
        Figure(
            "the same, 200 draws a position",
            mean[1],
            "",
            f"standard error of the difference {float(error):.1g}",
        ),
        Figure("greedy draft accepted, closed form", mean[2], "", note),
        Figure("1 − TV(p, q), the most that any draft reaches", mean[3], "", note),
    ]


def _keys(seed: int, first: int, count: int) -> Tensor:
    return torch.tensor(words(seed, first, count)).view(-1, len(Use))[:, Use.DRAW]


def milliseconds(function: Callable[[], object], repeats: int = 200) -> float:
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        function()
        times.append(time.perf_counter() - started)
    return 1000 * median(times)


def cost(steps: Sequence[float], name: str, size: int) -> list[Figure]:
    """Of making the random numbers of a step, beside the step."""
    given = torch.tensor(words(0, 0, K + 1)).view(-1, len(Use))
    own = milliseconds(lambda: chance(given, size, DraftMode.COUPLED, 1.0)) + milliseconds(
        lambda: words(0, 0, K + 1)
    )
    step = 1000 * median(steps)
    note = f"{own:.3f} ms of {step:.2f}"
    return [
        Figure(
            f"noise, share of a step, {name}",
            100 * own / step,
            "%",
            note,
            most=3 if size < WIDE else 5,
        )
    ]


@torch.inference_mode()
def flips(pair: Pair, positions: int, draws: int) -> list[Figure]:
    """How many draws change when the pass has one row in place of six, on the target's own text at
    temperature 1."""
    ids, first = own_text(pair, PromptConfig(QUESTION), positions, 0)
    cache = open_cache(pair.target, CacheSize(len(ids), K + 1))
    cache.read(ids[:first])
    changed = total = cdf = 0
    largest = 0.0
    for start in range(first, len(ids) - K, K + 1):
        six = cache.forward(ids[start : start + K + 1], start).clone()
        one = torch.cat(
            [cache.forward(ids[at : at + 1], at).clone() for at in range(start, start + K + 1)]
        )
        largest = max(largest, float((six - one).abs().max()))
        p, other = (target_distribution(logits, Sampling(1.0)) for logits in (six, one))
        for row in range(K + 1):
            sums = [each[row].cumsum(-1, dtype=torch.float64) for each in (p, other)]
            u = torch.rand(
                draws, dtype=torch.float64, generator=torch.Generator().manual_seed(start + row)
            )
            cdf += int(
                (
                    torch.searchsorted(sums[0], u * sums[0][-1])
                    != torch.searchsorted(sums[1], u * sums[1][-1])
                ).sum()
            )
            for part in range(0, draws, CHUNK):
                given = noise(_keys(start + row, part, CHUNK), p.shape[-1])
                changed += int(
                    (draw(p[row, None], given).ids != draw(other[row, None], given).ids).sum()
                )
                total += CHUNK
    note = f"{changed} of {total:,} draws; logits differ by up to {largest:.1g}"
    return [
        Figure(
            "draws that another width changes, of a million",
            1e6 * changed / total,
            "",
            note,
            most=10,
        ),
        Figure("the same by inverse CDF in id order", 1e6 * cdf / total, "", f"{cdf} of {total:,}"),
    ]


@measurement("noise", prompts=12, rounds=3, max_new_tokens=128, model="", positions=250, draws=8000)
def main(options: Namespace) -> Report:
    pair, prompts = bundled(), mixed_prompts(options.prompts)
    tables, figures, steps = [], [], list[float]()
    for temperature in TEMPERATURES:
        ours = methods(pair, temperature, options.max_new_tokens)
        samples = interleaved(ours, prompts, options.rounds, clock=time.process_time)
        tables.append(speed_table(temperature, samples))
        coupled = "draft model, coupled, strict"
        if temperature == 1:
            steps = [each.step_s for each in ours[coupled].timed]
            for mode, least in (("greedy", 1.25), ("sampled", 1.0)):
                other = f"draft model, {mode}, strict"
                figures.append(
                    speed(f"coupled over {mode} strict, temperature 1", samples, coupled, other)
                )
                value = tokens_per_s(samples[coupled]) / tokens_per_s(samples[other])
                figures.append(Figure("the same, all texts together", value, "×", least=least))
        for drafts in ("draft model", "EAGLE-3 chain", "EAGLE-3 tree"):
            name = f"mars over strict, coupled, {drafts}, temperature {temperature:g}"
            figures.append(
                speed(name, samples, f"{drafts}, coupled, mars", f"{drafts}, coupled, strict")
            )
    figures += acceptance(pair, prompts[:8], options.max_new_tokens)
    figures += cost(steps, "bundled pair", pair.vocabulary)
    keys = _keys(0, 0, K + 1)
    figures.append(
        Figure(
            f"{K + 1} × {WIDE:,} noise values",
            milliseconds(lambda: noise(keys, WIDE)),
            "ms",
            most=1,
        )
    )
    if options.model:
        real = ModelPool(device="cpu", dtype="float32").get(custom_pair(options.model))
        method = Ours(real, RuleConfig("strict"), DRAFTERS["n-grams"], 1.0, 64)
        method(PromptConfig(QUESTION), 0)
        name = Path(options.model).name
        figures += cost([each.step_s for each in method.timed if each.drafted], name, WIDE)
        figures += flips(real, options.positions, options.draws)
    notes = [
        "speeds are new tokens per second of processor time; methods alternate by prompt in random order"
    ]
    return Report(
        "Coupled drafts and the noise of draws",
        notes,
        figures=figures,
        tables=tables,
        device=pair.device,
    )
