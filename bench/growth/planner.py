"""``python -m bench.growth.planner``: the planner's speed-ups beside measured ones, for K = 1 to 8
of the bundled pair.

Predictions follow from acceptance and times of the runs at K = 5 and the times of those without
drafts, on the same prompts. Measured: median of the paired ratios of tokens per second of the
processor, prefill included, which other programs disturb less than wall time.
"""

from __future__ import annotations

import time
from argparse import Namespace
from dataclasses import dataclass, field, replace
from statistics import median

import psutil
import torch

from bench.common.command import measurement
from bench.common.decoding import bundled, complete, config_of, mixed_prompts
from bench.common.measure import Decoded, interleaved, overall_tau, ratio
from bench.common.report import Report, Table
from evaluation.planner import Times, acceptance_of, costs_of, planned, times_of
from mars_core.models import Pair
from mars_core.types import DrafterConfig, PromptConfig, Trace

DEFAULT, MOST = 5, 8
HEADS = ("K", "tokens a pass, planned", "measured", "speed-up, planned", "measured", "error")


@dataclass(slots=True)
class Traced:
    """A method of ours with K drafts, or without, that keeps its traces."""

    pair: Pair
    k: int
    temperature: float
    tokens: int
    traces: list[Trace] = field(default_factory=list)

    def __call__(self, prompt: PromptConfig, seed: int) -> Decoded:
        drafter = DrafterConfig("model", k=self.k) if self.k else DrafterConfig("none")
        self.traces.append(
            complete(
                self.pair,
                config_of(self.pair, prompt, drafter, self.temperature, self.tokens, seed),
            )
        )
        return Decoded(self.traces[-1].token_ids, len(self.traces[-1].steps))

    @property
    def times(self) -> Times:
        """Medians of the runs."""
        found = [times for trace in self.traces if (times := times_of(trace))]
        return Times(*map(median, zip(*found, strict=True)))


@measurement("planner", prompts=8, rounds=3, tokens=128)
def main(options: Namespace) -> Report:
    torch.set_num_threads(1)
    pair, prompts = bundled(device="cpu", dtype="float32"), mixed_prompts(options.prompts)
    tables, data = [], {}
    for temperature in (0.0, 1.0):
        methods = {str(k): Traced(pair, k, temperature, options.tokens) for k in range(MOST + 1)}
        samples = interleaved(methods, prompts, options.rounds, clock=time.process_time)
        whole = methods[str(DEFAULT)].traces
        run = acceptance_of(
            replace(whole[0], steps=tuple(step for trace in whole for step in trace.steps))
        )
        assert run is not None
        costs, rows = costs_of(methods[str(DEFAULT)].times, methods["0"].times.pass_s), []
        for point in planned(run, costs, MOST):
            name = str(point.size)
            measured = ratio(samples, name, "0")
            error = f"{100 * (point.speedup / measured.median - 1):+.0f} %"
            rows.append(
                (
                    name,
                    point.tokens,
                    overall_tau(samples[name]),
                    point.speedup,
                    str(measured),
                    error,
                )
            )
        text = f"A draft pass costs {costs.draft:.3f}, each further token of a pass {costs.slope:.4f} of a pass of one token."
        tables.append(Table(HEADS, rows, f"Temperature {temperature:g}", (text,)))
        data[f"{temperature:g}"] = {"rates": run.rates, "costs": costs._asdict(), "rows": rows}
    load = " ".join(f"{each:.1f}" for each in psutil.getloadavg())
    notes = [
        f"{len(prompts)} prompts × {options.rounds} rounds, rule strict, at most {options.tokens} new tokens, one thread",
        "costs are medians of wall time, as on the page, and measured speeds processor time: other programs disturb the former",
    ]
    facts = {"load average at the end": f"{load} (1, 5, 15 min)"}
    return Report(
        "The planner against a sweep over K", notes, tables=tables, data=data, facts=facts
    )
