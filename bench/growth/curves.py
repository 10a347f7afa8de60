"""The parameters varied by ``bench.growth`` and its runs; their medians, quartiles and exponents,
and its report."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import linear_regression, median
from typing import NamedTuple

from bench.common.decoding import complete, config_of
from bench.common.report import Report, Spread, Table, spread
from bench.common.shapes import small
from bench.coupled import coupled_pair, random_prompt
from bench.memory import peak_above
from mars_core.models import ModelPool, Pair
from mars_core.types import DrafterConfig, Summary, TreeShape

NOTE = (
    "time of a token: decoding alone, prefill apart. Attention over n positions costs O(n) a token and O(n²) in total: with the context "
    "the time of a token may grow linearly, that of the prefill superlinearly"
)
MEMORY = "peak memory: above that of the process before the run, with the pairs loaded; on a CPU its resident set, in a separate process"
PREFILL = "ms of prefill"
NOISE = 0.1  # of the pairs
VOCABULARY, PROMPT = 4096, 128  # tokens, where they do not vary
PAIRS = f"""random Llamas, width 256, 4 layers; {VOCABULARY} tokens of vocabulary and prompts of {PROMPT} tokens where these
  do not vary; rule strict, temperature 0; a draft model and a head of one layer"""


class Point(NamedTuple):
    vocabulary: int
    prompt: int  # tokens
    drafter: DrafterConfig


class Sweep(NamedTuple):
    title: str
    axis: str
    xs: tuple[int, ...]
    point: Callable[[int], Point]


CHAIN, TREE = DrafterConfig("model", k=5), DrafterConfig("eagle3", tree=TreeShape(24, 7, 4))
LENGTHS = (128, 256, 512, 1024, 2048, 4096, 8192)
SWEEPS: Mapping[str, Sweep] = {
    "context": Sweep(
        "Context, draft model, K = 5",
        "prompt tokens",
        LENGTHS,
        lambda x: Point(VOCABULARY, x, CHAIN),
    ),
    "context-tree": Sweep(
        "Context, EAGLE-3 tree 24/7/4",
        "prompt tokens",
        LENGTHS,
        lambda x: Point(VOCABULARY, x, TREE),
    ),
    "k": Sweep(
        "K, draft model",
        "K",
        (1, 2, 3, 5, 8, 11, 15),
        lambda x: Point(VOCABULARY, PROMPT, DrafterConfig("model", k=x)),
    ),
    "tree": Sweep(
        "Tree size, EAGLE-3 head, depth 7, top-k 10",
        "drafted tokens",
        (8, 16, 24, 32, 40, 50, 60),
        lambda x: Point(VOCABULARY, PROMPT, DrafterConfig("eagle3", tree=TreeShape(x, 7, 10))),
    ),
    "vocabulary": Sweep(
        "Vocabulary, draft model, K = 5",
        "tokens of the vocabulary",
        (1000, 4000, 16000, 64000, 150000),
        lambda x: Point(x, PROMPT, CHAIN),
    ),
}


@dataclass(frozen=True, slots=True)
class Sample:
    """One run at one point. ``decode_s`` is the wall time without the prefill."""

    decode_s: float
    prefill_s: float
    tokens: int
    steps: int


@dataclass(frozen=True, slots=True)
class Curve:
    """Measurements along one axis. ``samples`` and ``peaks`` (bytes above the process before its
    run) by point."""

    title: str
    axis: str
    xs: tuple[int, ...]
    samples: tuple[tuple[Sample, ...], ...]
    peaks: tuple[tuple[int, ...], ...]
    prefill: bool  # whether the time of the prefill grows with this axis, and is fitted


def pair_of(vocabulary: int, pool: ModelPool) -> Pair:
    """A pair on the device and in the dtype of the pool."""
    return coupled_pair(small(vocabulary), NOISE, pool.device, pool.dtype)


def decode(pair: Pair, point: Point, tokens: int, seed: int) -> Summary:
    """One run at temperature 0 on a prompt of random words, a different one for every seed."""
    prompt = random_prompt(point.prompt, seed, min(1000, point.vocabulary))
    return complete(pair, config_of(pair, prompt, point.drafter, 0.0, tokens, seed)).summary


def measure(
    pairs: Mapping[int, Pair], points: Sequence[Point], tokens: int, repetitions: int
) -> list[list[Sample]]:
    """Samples by point; every repetition uses all points in random order, after one warm-up run of
    each."""
    order, samples = random.Random(0), [list[Sample]() for _ in points]
    for repetition in range(-1, repetitions):
        for at in order.sample(range(len(points)), len(points)):
            found = decode(pairs[points[at].vocabulary], points[at], tokens, repetition + 1)
            if repetition >= 0:
                decode_s = found.wall_s - found.prefill_s
                samples[at].append(Sample(decode_s, found.prefill_s, found.new_tokens, found.steps))
    return samples


def peak(pair: Pair, point: Point, tokens: int, seed: int) -> int:
    """Peak bytes of one run above those before it, after a small warm-up run."""
    decode(pair, Point(point.vocabulary, 8, point.drafter), 8, seed)
    return peak_above(pair.device, lambda: decode(pair, point, tokens, seed))


def peak_on_cpu(sweep: str, x: int, tokens: int, seed: int) -> int:
    """The same, with a new pair in this process."""
    point = SWEEPS[sweep].point(x)
    return peak(pair_of(point.vocabulary, ModelPool(device="cpu")), point, tokens, seed)


def exponent(xs: Sequence[float], ys: Sequence[float]) -> float:
    """The b of y = a·xᵇ by least squares on the logarithms; nan for fewer than two points or values
    that have no logarithm."""
    if len(xs) < 2 or min(*xs, *ys) <= 0:
        return math.nan
    return linear_regression([math.log(x) for x in xs], [math.log(y) for y in ys]).slope


def upper_half(values: Sequence[float]) -> Sequence[float]:
    """The last half of the points, the middle one included."""
    return values[len(values) // 2 :]


def series(curve: Curve) -> dict[str, list[Spread]]:
    """The quantities by name, at every point: times first, the peak memory last."""
    return {
        "ms a token": [
            spread(1000 * one.decode_s / one.tokens for one in each) for each in curve.samples
        ],
        "ms a step": [
            spread(1000 * one.decode_s / one.steps for one in each) for each in curve.samples
        ],
        PREFILL: [spread(1000 * one.prefill_s for one in each) for each in curve.samples],
        "peak memory, MB": [spread(peak / 1e6 for peak in each) for each in curve.peaks],
    }


def exponents(curve: Curve) -> list[tuple[str, float, float]]:
    """Name of the quantity, exponent over the upper half of the points, exponent over all of them;
    without the prefill if it does not grow with the axis."""
    fitted = {
        name: values for name, values in series(curve).items() if curve.prefill or name != PREFILL
    }
    medians = {name: [value.median for value in values] for name, values in fitted.items()}
    return [
        (name, exponent(upper_half(curve.xs), upper_half(ys)), exponent(curve.xs, ys))
        for name, ys in medians.items()
    ]


def report(curves: Sequence[Curve], device: object = "cpu") -> Report:
    runs, peaks = len(curves[0].samples[0]), len(curves[0].peaks[0])
    method = (
        f"medians of {runs} interleaved runs (memory: {peaks}), quartiles in brackets; the exponent b of y = a·xᵇ by least squares"
        " on logarithms"
    )
    tables = [table for curve in curves for table in _tables(curve)]
    data = {"curves": [asdict(curve) for curve in curves]}
    return Report("Growth", [PAIRS, NOTE, MEMORY, method], tables=tables, data=data, device=device)


def _tables(curve: Curve) -> tuple[Table, Table]:
    """The medians and quartiles; the exponents."""
    columns, upper = series(curve), upper_half(curve.xs)
    taus = [median(sample.tokens / sample.steps for sample in each) for each in curve.samples]
    rows = [
        (f"{x:,}", *(f"{v.median:.3g} ({v.low:.3g}–{v.high:.3g})" for v in values), f"{tau:.2f}")
        for x, tau, *values in zip(curve.xs, taus, *columns.values(), strict=True)
    ]
    ranges = (f"{upper[0]:,} to {upper[-1]:,}", f"{curve.xs[0]:,} to {curve.xs[-1]:,}")
    slopes = [(name, f"{high:.2f}", f"{whole:.2f}") for name, high, whole in exponents(curve)]
    return Table((curve.axis, *columns, "τ"), rows, curve.title), Table(
        ("exponent of", *ranges), slopes
    )
