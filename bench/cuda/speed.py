"""Speed: steps and their lower bounds, our decoding compared with transformers' and a plain loop,
and the same runs with and without captures, exact passes and telemetry."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from bench.common.bounds import bandwidth, weight_bytes
from bench.common.decoding import DRAFTERS, Ours, any_shape
from bench.common.measure import Method, Samples, median_speed, overall_tau, ratio
from bench.common.peers import assisted, greedy, looped, prompted
from bench.common.report import MeasuredFigure
from bench.coupled import coupled_models, prompts
from bench.cuda.trial import NOISE, CudaTrial, switched
from mars_core.models import Pair

K = DRAFTERS["draft model"].k
LOOP = "gpt-fast-style loop"
STRICT = "strict, draft model"
SPEED_GOALS = (("assisted", 2.5), (LOOP, 1.2))  # of strict at temperature 0, at least
VERIFY_GOAL, STEP_GOAL = 1.15, 1.3  # times the lower bound, at most
GRAPHS_GOAL = 1.5  # times the eager speed, at least
TELEMETRY_GOAL = 3.0  # per cent of the time, at most
COMPARED = ("none", "draft model", "EAGLE-3 chain", "EAGLE-3 tree")


def speed(trial: CudaTrial, key: str) -> Iterator[MeasuredFigure]:
    """Measures one pair: lower bounds, then temperature 0 with the peers, then temperature 1."""
    pair = trial.pair(key)
    strict = trial.ours(pair, "draft model")
    for prompt in prompts(3):
        strict(prompt, 0)
    yield from bounds(strict, bandwidth(trial.device, 2**22 if trial.tiny else 2**31))
    samples = trial.interleaved({**_ours(trial, pair, 0.0), **_peers(trial, pair, key)}, 0.75)
    yield from goals(samples)
    yield from rows(samples, 0.0)
    yield from rows(trial.interleaved(_ours(trial, pair, 1.0), 1.0), 1.0)


def _ours(trial: CudaTrial, pair: Pair, temperature: float) -> dict[str, Method]:
    by_name: dict[str, Method] = {"none": trial.ours(pair, "none", temperature)}
    for name in COMPARED[1:]:
        for rule in ("strict", "mars"):
            by_name[f"{rule}, {name}"] = trial.ours(pair, name, temperature, rule=rule)
    return by_name


def _peers(trial: CudaTrial, pair: Pair, key: str) -> dict[str, Method]:
    """The peers, on unmodified transformers models."""
    target, draft = coupled_models(trial.trio(key), NOISE, trial.device, trial.size.dtype)
    decoders = {
        "generate": greedy(target),
        "assisted": assisted(target, draft, K),
        LOOP: looped(target, draft, K),
    }
    return {
        name: prompted(decoder, pair.tokenizer, trial.size.tokens)
        for name, decoder in decoders.items()
    }


def bounds(method: Ours, bytes_a_s: float) -> Iterator[MeasuredFigure]:
    """Lower bounds for steps of ``method`` with a full draft: median times / time to read their
    bytes."""
    full_steps = [step for step in method.timed if step.drafted == K]
    target, draft = (
        weight_bytes(method.pair.target) / bytes_a_s,
        K * weight_bytes(method.pair.draft) / bytes_a_s,
    )
    parts = (
        ("verify", median(step.verify_s for step in full_steps), target, VERIFY_GOAL),
        ("draft", median(step.draft_s for step in full_steps), draft, None),
        ("step", median(step.step_s for step in full_steps), target + draft, STEP_GOAL),
    )
    for name, took, bound, most in parts:
        note = f"{1e3 * took:.3f} ms, bound {1e3 * bound:.3f} ms; {method.path}"
        yield MeasuredFigure(
            f"{STRICT}: {name} / its lower bound", took / bound, "×", note, most=most
        )
    yield MeasuredFigure(
        "bandwidth",
        bytes_a_s / 1e9,
        "GB/s",
        "of a large buffer on the device, bytes read and written",
    )


def goals(samples: Samples) -> Iterator[MeasuredFigure]:
    for baseline, least in SPEED_GOALS:
        yield MeasuredFigure(
            f"{STRICT} / {baseline}", ratio(samples, STRICT, baseline).median, "×", least=least
        )


def rows(samples: Samples, temperature: float) -> Iterator[MeasuredFigure]:
    """Figures of every method, relative to the first."""
    baseline = next(iter(samples))
    for name, taken in samples.items():
        beside, tau = ratio(samples, name, baseline), overall_tau(taken)
        note = f"{beside.median:.2f}× {baseline} ({beside.low:.2f}–{beside.high:.2f} of {beside.count})"
        note += "" if tau is None else f", τ {tau:.2f}"
        yield MeasuredFigure(f"{name}, T = {temperature:g}", median_speed(taken), "tokens/s", note)


def graphs(trial: CudaTrial) -> Iterator[MeasuredFigure]:
    eager, captured = (switched(trial.pair("qwen"), graphs=on) for on in (False, True))
    for name, speedup, speeds in _beside(trial, captured, eager):
        yield MeasuredFigure(f"graphs / eager, {name}", speedup, "×", speeds, least=GRAPHS_GOAL)


def exactness(trial: CudaTrial) -> Iterator[MeasuredFigure]:
    exact = trial.pair("qwen")
    free = any_shape(exact)
    for name, speedup, speeds in _beside(trial, exact, free):
        yield MeasuredFigure(f"exact / free passes, {name}", speedup, "×", speeds)


def telemetry(trial: CudaTrial) -> Iterator[MeasuredFigure]:
    pair = trial.pair("qwen")
    for name, speedup, speeds in _beside(trial, pair, pair, telemetry=False):
        yield MeasuredFigure(
            f"meter, {name}", 100 * (1 - speedup), "% of the time", speeds, most=TELEMETRY_GOAL
        )


def _beside(
    trial: CudaTrial, pair: Pair, baseline: Pair, *, telemetry: bool = True
) -> Iterator[tuple[str, float, str]]:
    """Name of every drafter, ratio of speeds, and text with both speeds. ``telemetry``: of the
    baseline."""
    for at, name in enumerate(COMPARED):
        both = {
            "with": trial.ours(pair, name),
            "without": trial.ours(baseline, name, telemetry=telemetry),
        }
        samples = trial.interleaved(both, 1 / (len(COMPARED) - at))
        first, second = (median_speed(taken) for taken in samples.values())
        yield (
            name,
            ratio(samples, "with", "without").median,
            f"{first:.0f} and {second:.0f} tokens/s",
        )
