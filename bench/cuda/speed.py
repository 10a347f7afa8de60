"""Speed: steps, their parts and their lower bounds, our decoding compared with transformers',
and the same runs with and without captures, exact passes and telemetry."""

from __future__ import annotations

from collections import defaultdict
from statistics import median
from typing import Any

import torch

from bench.common.decoding import COMPARED, DRAFTERS, Ours
from bench.common.measure import Method, Samples, median_speed, overall_tau, ratio, timed
from bench.common.peers import assisted, greedy
from bench.common.report import Figures, MeasuredFigure
from bench.cuda.coupled import coupled_models, prompts
from bench.cuda.trial import NOISE, CudaTrial, switched
from mars_core.capture import Stopwatch
from mars_core.decoder import synchronise
from mars_core.models import Pair

K = DRAFTERS["draft model"].k
STRICT = "strict, draft model"
SPEED_GOAL = 2.5  # of strict at temperature 0 over assisted generation, at least
VERIFY_GOAL, STEP_GOAL = 1.15, 1.3  # times the lower bound, at most
TELEMETRY_GOAL = 3.0  # per cent of the time, at most
REPLAYS = 20


def speed(trial: CudaTrial, key: str) -> Figures:
    """Measures one pair: lower bounds, then temperature 0 with the peers, then temperature 1."""
    pair = trial.pair(key)
    strict = trial.ours(pair, "draft model")
    for prompt in prompts(3):
        strict(prompt, 0)
    yield from bounds(strict, bandwidth(trial.device, trial.size.copied))
    yield from replays(pair)
    samples = trial.interleaved({**_ours(trial, pair, 0.0), **_peers(trial, pair, key)})
    speedup = ratio(samples, STRICT, "assisted").median
    yield MeasuredFigure(f"{STRICT} / assisted", speedup, "×", least=SPEED_GOAL)
    yield from rows(samples, 0.0)
    yield from rows(trial.interleaved(_ours(trial, pair, 1.0)), 1.0)


def _ours(trial: CudaTrial, pair: Pair, temperature: float) -> dict[str, Method]:
    by_name: dict[str, Method] = {"none": trial.ours(pair, "none", temperature)}
    for name in COMPARED[1:]:
        for rule in ("strict", "mars"):
            by_name[f"{rule}, {name}"] = trial.ours(pair, name, temperature, rule=rule)
    return by_name


def _peers(trial: CudaTrial, pair: Pair, key: str) -> dict[str, Method]:
    """Return the peers, on unmodified transformers models."""
    target, draft = coupled_models(trial.size.trios[key], NOISE, trial.device, trial.size.dtype)
    tokenizer, new = pair.tokenizer, trial.size.tokens
    return {
        "generate": greedy(target, tokenizer, new),
        "assisted": assisted(target, draft, K, tokenizer, new),
    }


def weight_bytes(model: Any) -> int:
    """Bytes of the weights read by a pass of a model that does not share its embedding table with
    its output layer: of the table one row per token."""
    unread = int(model.get_input_embeddings().weight.nbytes)
    return sum(int(each.nbytes) for each in model.parameters()) - unread


def bandwidth(device: torch.device, size: int) -> float:
    """Bytes per second, read and written, of a copy of ``size`` bytes."""
    source = torch.ones(size // 4, device=device)
    target = torch.empty_like(source)
    return 2 * source.nbytes / timed(lambda: target.copy_(source), 50, device)


def bounds(method: Ours, bytes_a_s: float) -> Figures:
    """Lower bounds for steps of ``method`` with a full draft: median times / time to read their
    bytes."""
    steps = [step for step in method.timed if step.drafted == K]
    target = weight_bytes(method.pair.target) / bytes_a_s
    draft = K * weight_bytes(method.pair.draft) / bytes_a_s
    for name, bound, most in (
        ("verify", target, VERIFY_GOAL),
        ("draft", draft, None),
        ("step", target + draft, STEP_GOAL),
    ):
        took = median(getattr(step, f"{name}_s") for step in steps)
        title = f"{STRICT}: {name} / its lower bound"
        note = f"{1e3 * took:.3f} ms, bound {1e3 * bound:.3f} ms; {method.path}"
        yield MeasuredFigure(title, took / bound, "×", note, most=most)
    note = "of a large buffer on the device, bytes read and written"
    yield MeasuredFigure("bandwidth", bytes_a_s / 1e9, "GB/s", note)


def replays(pair: Pair) -> Figures:
    """Measure on the device's timeline what the captures of a step take: of the engines that the
    pair has, each replayed by itself, in the order of a step."""
    taken = defaultdict[str, list[float]](list)
    for engine in pair.engines._idle.values():
        for _ in range(REPLAYS):
            for (name, *_rest), capture in engine._graphs._captured.items():
                watch = Stopwatch(pair.device)
                watch.mark()
                with torch.inference_mode():
                    capture.replay()
                watch.mark()
                synchronise(pair.device)
                taken[name].append(watch.seconds())
    for name, seconds in taken.items():
        note = f"of a replay, median of {len(seconds)}"
        yield MeasuredFigure(f"{STRICT}: {name}", 1e3 * median(seconds), "ms", note)


def rows(samples: Samples, temperature: float) -> Figures:
    """Figures of every method, relative to the first."""
    baseline = next(iter(samples))
    for name, taken in samples.items():
        (low, middle, high), tau = ratio(samples, name, baseline), overall_tau(taken)
        note = f"{middle:.2f}× {baseline} ({low:.2f}–{high:.2f} of {len(taken)})"
        note += "" if tau is None else f", τ {tau:.2f}"
        yield MeasuredFigure(f"{name}, T = {temperature:g}", median_speed(taken), "tokens/s", note)


def beside(
    trial: CudaTrial,
    figure: str,
    *,
    least: float | None = None,
    telemetry: bool = True,
    **switches: Any,
) -> Figures:
    """Yield the speed with every drafter relative to that of the same pair with these switches, and
    with or without telemetry."""
    pair = trial.pair("qwen")
    other = switched(pair, **switches)
    for name in COMPARED:
        both = {"with": trial.ours(pair, name)}
        both["without"] = trial.ours(other, name, telemetry=telemetry)
        samples = trial.interleaved(both)
        speeds = " and ".join(f"{median_speed(taken):.0f}" for taken in samples.values())
        speedup = ratio(samples, "with", "without").median
        yield MeasuredFigure(f"{figure}, {name}", speedup, "×", f"{speeds} tokens/s", least=least)


def telemetry(trial: CudaTrial) -> Figures:
    for each in beside(trial, "meter", telemetry=False):
        cost = 100 * (1 - each.value)
        yield each._replace(value=cost, unit="% of the time", most=TELEMETRY_GOAL)
