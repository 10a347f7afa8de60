"""``python -m bench.telemetry``: the cost of telemetry in processor time, over many interleaved
pairs of runs. Run it with OMP_NUM_THREADS=1."""

from __future__ import annotations

import time
from itertools import product

from bench.common.command import Options, Reports, measurement
from bench.common.decoding import DRAFTERS, Ours, loaded, mixed_prompts
from bench.common.measure import interleaved, paired
from bench.common.report import BenchReport, MeasuredFigure

MAX_COST = 3.0  # per cent of the processor time
SETTINGS = (("strict", "draft model"), ("mars", "draft model"), ("strict", "EAGLE-3 tree"))
TOKENS = 96


@measurement("bench.telemetry", __doc__, pairs=60)
def main(options: Options) -> Reports:
    pair, prompts = loaded(device="cpu"), mixed_prompts(min(12, options.pairs))
    figures, rounds = [], -(-options.pairs // len(prompts))
    for run, temperature, (rule, drafter) in product((1, 2), (0.0, 1.0), SETTINGS):
        methods = {
            telemetry: Ours(pair, rule, DRAFTERS[drafter], temperature, TOKENS, telemetry == "on")
            for telemetry in ("on", "off")
        }
        samples = interleaved(methods, prompts, rounds, warm_up=0, clock=time.process_time)
        name = f"{rule}, {drafter}, temperature {temperature:g}, run {run}"
        shares = [100 * (1 - ratio) for ratio in paired(samples, "on", "off")]
        figures.append(MeasuredFigure.of(name, shares, "%", most=MAX_COST))
    note = "medians of pairs of runs with telemetry on and off"
    yield BenchReport("Processor time of telemetry", [note], figures, device=pair.device)


if __name__ == "__main__":
    raise SystemExit(main())
