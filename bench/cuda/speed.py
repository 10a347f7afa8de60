"""Steps beside the bytes that they cannot but read, and our decoding beside transformers' own and a plain loop."""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median
from typing import Any

import torch

from bench.coupled import coupled_models, prompts
from bench.cuda.trial import NOISE, Figure, Trial
from bench.measure import Method, Samples, interleaved, median_speed, overall_tau, paired, spread
from bench.methods import DRAFTERS, Ours
from bench.peers import assisted, greedy, looped, prompted
from mars_core.decoder import synchronise
from mars_core.models import Pair

K = DRAFTERS["draft model"].k
COPIES = 20
LOOP = "gpt-fast-style loop"
STRICT = "strict, draft model"
SPEED_GOALS = (("assisted", 2.5), (LOOP, 1.2))  # of strict at temperature 0, at least
VERIFY_GOAL, STEP_GOAL = 1.15, 1.3  # times the floor, at most


def speed(trial: Trial, key: str) -> Iterator[Figure]:
    """Of one pair: floors, then temperature 0 with the peers, then temperature 1."""
    pair = trial.pair(key)
    strict = trial.ours(pair, "draft model")
    for prompt in prompts(3):
        strict(prompt, 0)
    yield from floors(strict, copy_bandwidth(trial.device, 2**22 if trial.tiny else 2**31))
    samples = _taken(trial, {**_ours(trial, pair, 0.0), **_peers(trial, pair, key)}, 0.75)
    yield from goals(samples)
    yield from rows(samples, 0.0)
    yield from rows(_taken(trial, _ours(trial, pair, 1.0), 1.0), 1.0)


def _taken(trial: Trial, methods: dict[str, Method], part: float) -> Samples:
    return interleaved(methods, prompts(trial.prompts), trial.rounds, warm_up=1, until=trial.share(part))


def _ours(trial: Trial, pair: Pair, temperature: float) -> dict[str, Method]:
    drafted = [name for name in trial.drafters if name not in ("none", "n-grams")]
    found: dict[str, Method] = {"none": trial.ours(pair, "none", temperature)}
    for name in drafted:
        for rule in ("strict", "mars"):
            found[f"{rule}, {name}"] = trial.ours(pair, name, temperature, rule=rule)
    return found


def _peers(trial: Trial, pair: Pair, key: str) -> dict[str, Method]:
    """On models as transformers makes them."""
    target, draft = coupled_models(trial.trio(key), NOISE, trial.device, trial.dtype)
    found = {"generate": greedy(target), "assisted": assisted(target, draft, K), LOOP: looped(target, draft, K)}
    return {name: prompted(decoder, pair.tokenizer, trial.tokens) for name, decoder in found.items()}


def floors(method: Ours, bandwidth: float) -> Iterator[Figure]:
    """Of the steps that ``method`` has taken with a whole draft: medians over the times in which their bytes could be read."""
    whole = [step for step in method.timed if step.drafted == K]
    target, draft = pass_bytes(method.pair.target) / bandwidth, K * pass_bytes(method.pair.draft) / bandwidth
    parts = (
        ("verify", median(step.verify_s for step in whole), target, VERIFY_GOAL),
        ("draft", median(step.draft_s for step in whole), draft, None),
        ("step", median(step.step_s for step in whole), target + draft, STEP_GOAL),
    )
    for name, seconds, floor, most in parts:
        note = f"{1e3 * seconds:.3f} ms, floor {1e3 * floor:.3f} ms; {method.path}"
        yield Figure(f"{STRICT}: {name} / its floor", seconds / floor, "×", note, most=most)
    yield Figure("bandwidth", bandwidth / 1e9, "GB/s", "of a large copy on the device, bytes read and written")


def goals(samples: Samples) -> Iterator[Figure]:
    for baseline, least in SPEED_GOALS:
        yield Figure(f"{STRICT} / {baseline}", spread(paired(samples, STRICT, baseline)).median, "×", least=least)


def rows(samples: Samples, temperature: float) -> Iterator[Figure]:
    """Of every method, beside the first."""
    baseline = next(iter(samples))
    for name, own in samples.items():
        ratio, tau = spread(paired(samples, name, baseline)), overall_tau(own)
        note = f"{ratio.median:.2f}× {baseline} ({ratio.low:.2f}–{ratio.high:.2f} of {ratio.count})"
        note += "" if tau is None else f", τ {tau:.2f}"
        yield Figure(f"{name}, T = {temperature:g}", median_speed(own), "tokens/s", note)


def pass_bytes(model: Any) -> int:
    """Of the weights that one pass reads: an embedding table is read a row a token, unless it is the output layer too."""
    table, output = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    return sum(int(weight.nbytes) for weight in model.parameters()) - (0 if table is output else int(table.nbytes))


def copy_bandwidth(device: torch.device, size: int) -> float:
    """Bytes a second, read and written, while a buffer of ``size`` bytes is copied on the device; the median of many copies."""
    source = torch.ones(size, dtype=torch.uint8, device=device)
    goal = torch.empty_like(source)
    times = []
    for _ in range(COPIES):
        synchronise(device)
        started = time.perf_counter()
        goal.copy_(source)
        synchronise(device)
        times.append(time.perf_counter() - started)
    return 2 * size / median(times)
