"""``python -m bench.growth``: time per token and peak memory against context, K, tree size and vocabulary, with exponents.

The pairs are random and coupled (``bench.coupled``): drafts are right often, not always.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from bench.common.command import ROOT, Command, publish, stem
from bench.common.decoding import complete, config_of
from bench.common.shapes import small
from bench.coupled import coupled_pair, random_prompt
from bench.growth.chart import svg
from bench.growth.curves import Curve, Sample, report
from bench.memory import peak_above
from mars_core.models import ModelPool, Pair
from mars_core.types import DrafterConfig, Summary, TreeShape

NOISE = 0.1  # of the pairs
VOCABULARY, PROMPT = 4096, 128  # tokens, where they do not vary
PAIRS = f"""random Llamas, width 256, 4 layers; {VOCABULARY} tokens of vocabulary and prompts of {PROMPT} tokens where these
  do not vary; rule strict, temperature 0; a draft model and a head of one layer"""


@dataclass(frozen=True, slots=True)
class Point:
    vocabulary: int
    prompt: int  # tokens
    drafter: DrafterConfig


@dataclass(frozen=True, slots=True)
class Sweep:
    title: str
    axis: str
    xs: tuple[int, ...]
    point: Callable[[int], Point]


CHAIN, TREE = DrafterConfig("model", k=5), DrafterConfig("eagle3", tree=TreeShape(24, 7, 4))
LENGTHS = (128, 256, 512, 1024, 2048, 4096, 8192)
SWEEPS: Mapping[str, Sweep] = {
    "context": Sweep("Context, draft model, K = 5", "prompt tokens", LENGTHS, lambda x: Point(VOCABULARY, x, CHAIN)),
    "context-tree": Sweep("Context, EAGLE-3 tree 24/7/4", "prompt tokens", LENGTHS, lambda x: Point(VOCABULARY, x, TREE)),
    "k": Sweep("K, draft model", "K", (1, 2, 3, 5, 8, 11, 15), lambda x: Point(VOCABULARY, PROMPT, DrafterConfig("model", k=x))),
    "tree": Sweep(
        "Tree size, EAGLE-3 head, depth 7, top-k 10", "drafted tokens", (8, 16, 24, 32, 40, 50, 60),
        lambda x: Point(VOCABULARY, PROMPT, DrafterConfig("eagle3", tree=TreeShape(x, 7, 10))),
    ),
    "vocabulary": Sweep(
        "Vocabulary, draft model, K = 5", "tokens of the vocabulary", (1000, 4000, 16000, 64000, 150000),
        lambda x: Point(x, PROMPT, CHAIN),
    ),
}  # fmt: skip
QUICK = 3  # points a sweep, the first ones


def pair_of(vocabulary: int, pool: ModelPool) -> Pair:
    """On the device and in the dtype that the pool would load to."""
    return coupled_pair(small(vocabulary), NOISE, pool.device, pool.dtype)


def decode(pair: Pair, point: Point, tokens: int, seed: int) -> Summary:
    """One run at temperature 0 on a prompt of random words, another one for every seed."""
    prompt = random_prompt(point.prompt, seed, min(1000, point.vocabulary))
    return complete(pair, config_of(pair, prompt, point.drafter, 0.0, tokens, seed)).summary


def measure(pairs: Mapping[int, Pair], points: Sequence[Point], tokens: int, repetitions: int) -> list[list[Sample]]:
    """Samples by point; every repetition takes all points in an order of its own, after one run of each that does not count."""
    order, samples = random.Random(0), [list[Sample]() for _ in points]
    for repetition in range(-1, repetitions):
        for at in order.sample(range(len(points)), len(points)):
            found = decode(pairs[points[at].vocabulary], points[at], tokens, repetition + 1)
            if repetition >= 0:
                decode_s = found.wall_s - found.prefill_s
                samples[at].append(Sample(decode_s, found.prefill_s, found.new_tokens, found.steps))
    return samples


def peak(pair: Pair, point: Point, tokens: int, seed: int) -> int:
    """Bytes that one run needs at most above what there was before it, after a small run that does not count."""
    decode(pair, Point(point.vocabulary, 8, point.drafter), 8, seed)
    return peak_above(pair.device, lambda: decode(pair, point, tokens, seed))


def peak_apart(sweep: str, x: int, tokens: int, seed: int) -> int:
    """``peak`` in a process of its own, on the CPU."""
    command = [sys.executable, "-m", "bench.growth", "--peak", *map(str, (sweep, x, tokens, seed))]
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"}  # freed tensors leave the resident set at once
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT)
    return int(done.stdout.split()[-1])


def _print_peak(sweep: str, x: str, tokens: str, seed: str) -> int:
    """The process of ``peak_apart``."""
    point = SWEEPS[sweep].point(int(x))
    sys.stdout.write(f"{peak(pair_of(point.vocabulary, ModelPool(device='cpu')), point, int(tokens), int(seed))}\n")
    return 0


def curves(options: argparse.Namespace, pool: ModelPool) -> list[Curve]:
    """All sweeps, their points interleaved."""
    places = [(name, x) for name in options.sweeps for x in SWEEPS[name].xs[: QUICK if options.quick else None]]
    points = [SWEEPS[name].point(x) for name, x in places]
    pairs = {size: pair_of(size, pool) for size in sorted({point.vocabulary for point in points})}
    samples = measure(pairs, points, options.tokens, options.repetitions)

    def peaks(at: int) -> tuple[int, ...]:
        seeds, point = range(options.peaks), points[at]
        if pool.device.type == "cuda":
            return tuple(peak(pairs[point.vocabulary], point, options.tokens, seed) for seed in seeds)
        return tuple(peak_apart(*places[at], options.tokens, seed) for seed in seeds)

    found = []
    for name in options.sweeps:
        own = [at for at, (owner, _) in enumerate(places) if owner == name]
        measured = tuple(places[at][1] for at in own), tuple(tuple(samples[at]) for at in own), tuple(map(peaks, own))
        found.append(Curve(name, SWEEPS[name].title, SWEEPS[name].axis, *measured, prefill=name.startswith("context")))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    command = Command("bench.growth", __doc__, tokens=64, repetitions=7, peaks=3)
    command.add_argument("--sweeps", nargs="+", choices=SWEEPS, default=list(SWEEPS))
    command.add_argument("--quick", action="store_true", help="only the first points of each sweep")
    command.add_argument("--device", default="auto")
    command.add_argument("--peak", nargs=4, help=argparse.SUPPRESS)
    options = command.read(arguments)
    if options.peak:
        return _print_peak(*options.peak)
    pool = ModelPool(device=options.device)
    found = curves(options, pool)
    path = stem(options.out, "growth", pool.device.type)
    publish(report(found, command.facts(pool.device), PAIRS, path.name, [asdict(curve) for curve in found]), path)
    for curve in found:
        path.with_name(f"{path.name}-{curve.name}.svg").write_text(svg(curve), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
