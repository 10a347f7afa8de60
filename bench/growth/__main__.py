"""``python -m bench.growth``: time per token and peak memory against context, K, tree size and vocabulary, with exponents.

The pairs are random and coupled (``bench.coupled``): drafts are often, but not always, accepted.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

from bench.common.command import Command
from bench.growth.curves import SWEEPS, Curve, drawing, measure, pair_of, peak, peak_on_cpu, report
from evaluation.report.document.render import svg
from mars_core.models import ModelPool


def curves(options: argparse.Namespace, pool: ModelPool) -> list[Curve]:
    """All sweeps, their points interleaved."""
    points = {(name, x): SWEEPS[name].point(x) for name in options.sweeps for x in SWEEPS[name].xs}
    pairs = {size: pair_of(size, pool) for size in sorted({point.vocabulary for point in points.values()})}
    samples = dict(zip(points, measure(pairs, [*points.values()], options.tokens, options.repetitions), strict=True))
    os.environ["MALLOC_MMAP_THRESHOLD_"] = "65536"  # for child processes: freed tensors leave the resident set

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
        found.append(Curve(name, sweep.title, sweep.axis, xs, taken, peaks, prefill=name.startswith("context")))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    command = Command("bench.growth", __doc__, tokens=64, repetitions=7, peaks=3)
    command.add_argument("--sweeps", nargs="+", choices=SWEEPS, default=list(SWEEPS))
    command.add_argument("--device", default="auto")
    options = command.read(arguments)
    pool = ModelPool(device=options.device)
    found = curves(options, pool)
    path = command.path("growth", pool.device)
    command.publish(report(found, path.name), "growth", pool.device)
    for curve in found:
        path.with_name(f"{path.name}-{curve.name}.svg").write_text(svg(drawing(curve)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
