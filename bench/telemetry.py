"""``python -m bench.telemetry``: the cost of telemetry in processor time, over many interleaved
pairs of runs."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Sequence
from itertools import product

import torch

from bench.common.command import measurement
from bench.common.decoding import DRAFTERS, Ours, bundled, mixed_prompts
from bench.common.measure import interleaved, paired
from bench.common.report import Figure, Report
from mars_core.models import Pair
from mars_core.types import PromptConfig, RuleConfig

MAX_COST = 3.0  # per cent of the processor time
SETTINGS = (("strict", "draft model"), ("mars", "draft model"), ("strict", "EAGLE-3 tree"))
TOKENS = 96


def cost(
    pair: Pair,
    rule: str,
    drafter: str,
    temperature: float,
    prompts: Sequence[PromptConfig],
    rounds: int,
) -> list[float]:
    """The share of processor time used by the meter, in per cent, for each pair of runs with the
    meter on and off."""
    methods = {
        name: Ours(pair, RuleConfig(rule), DRAFTERS[drafter], temperature, TOKENS, meter)
        for name, meter in (("on", True), ("off", False))
    }
    samples = interleaved(methods, prompts, rounds, warm_up=0, clock=time.process_time)
    return [
        100 * (1 - ratio) for ratios in paired(samples, "on", "off").values() for ratio in ratios
    ]


@measurement("telemetry", pairs=60, threads=1)
def main(options: Namespace) -> Report:
    torch.set_num_threads(options.threads)
    pair, prompts = bundled(device="cpu"), mixed_prompts(min(12, options.pairs))
    shares, rounds = {}, -(-options.pairs // len(prompts))
    for run, temperature, (rule, drafter) in product((1, 2), (0.0, 1.0), SETTINGS):
        name = f"{rule}, {drafter}, temperature {temperature:g}, run {run}"
        shares[name] = cost(pair, rule, drafter, temperature, prompts, rounds)
    figures = [Figure.of(name, values, "%", most=MAX_COST) for name, values in shares.items()]
    notes = [
        f"medians of pairs of runs with the meter on and off; {sum(bool(one.reached) for one in figures)} of {len(figures)} goals reached"
    ]
    return Report(
        "Processor time of telemetry", notes, figures, data={"shares": shares}, device=pair.device
    )
