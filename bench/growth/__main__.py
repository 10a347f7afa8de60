"""``python -m bench.growth``: time per token and peak memory against context, K, tree size and
vocabulary, with exponents.

The pairs are random and coupled (``bench.coupled``): drafts are often, but not always, accepted.
"""

from __future__ import annotations

import multiprocessing
import os
from argparse import Namespace
from concurrent.futures import ProcessPoolExecutor

from bench.common.command import measurement
from bench.common.report import Report
from bench.growth.curves import SWEEPS, Curve, measure, pair_of, peak, peak_on_cpu, report
from mars_core.models import ModelPool


@measurement("growth", tokens=64, repetitions=7, peaks=3, sweeps=[*SWEEPS], device="auto")
def main(options: Namespace) -> Report:
    """All sweeps, their points interleaved."""
    pool = ModelPool(device=options.device)
    points = {(name, x): SWEEPS[name].point(x) for name in options.sweeps for x in SWEEPS[name].xs}
    pairs = {
        size: pair_of(size, pool)
        for size in sorted({point.vocabulary for point in points.values()})
    }
    samples = dict(
        zip(
            points,
            measure(pairs, [*points.values()], options.tokens, options.repetitions),
            strict=True,
        )
    )
    os.environ["MALLOC_MMAP_THRESHOLD_"] = (
        "65536"  # for child processes: freed tensors leave the resident set
    )

    def peak_of(name: str, x: int, seed: int) -> int:
        """On a CPU in a separate process."""
        if pool.device.type == "cuda":
            return peak(pairs[points[name, x].vocabulary], points[name, x], options.tokens, seed)
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as apart:
            return apart.submit(peak_on_cpu, name, x, options.tokens, seed).result()

    found = []
    for name in options.sweeps:
        sweep, xs = SWEEPS[name], SWEEPS[name].xs
        taken = tuple(tuple(samples[name, x]) for x in xs)
        peaks = tuple(tuple(peak_of(name, x, seed) for seed in range(options.peaks)) for x in xs)
        found.append(
            Curve(sweep.title, sweep.axis, xs, taken, peaks, prefill=name.startswith("context"))
        )
    return report(found, pool.device)
