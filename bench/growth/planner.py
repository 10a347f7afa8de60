"""``python -m bench.growth.planner``: the planner's speed-ups beside measured ones, for K = 1 to 8 of the bundled pair.

Predictions follow from the acceptance and times of the runs at K = 5 and the time of a pass of one token of those without drafts, on the
same prompts. Measured: median of the paired ratios of tokens per second of the processor (one thread), which other programs on the machine
disturb less than wall time; a prefill is in it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import NamedTuple

import psutil
import torch

from bench.common.command import Command
from bench.common.decoding import bundled, complete, config_of, mixed_prompts
from bench.common.report import Report, Table, spread
from evaluation.planner import Acceptance, Times, acceptance_of, costs_of, planned, single_pass_s, times_of
from mars_core.models import Pair
from mars_core.types import DrafterConfig, PromptConfig, Trace

DEFAULT, KS = 5, range(1, 9)


class Timed(NamedTuple):
    """A run and its tokens per second of the processor."""

    trace: Trace
    speed: float


def runs(
    pair: Pair, prompts: Sequence[PromptConfig], rounds: int, tokens: int, temperature: float
) -> dict[int, list[Timed]]:
    """By K, 0 without drafts: every prompt in every round, interleaved, after one warm-up run of each K."""
    found: dict[int, list[Timed]] = {k: [] for k in (0, *KS)}
    for turn in range(-1, rounds):
        for prompt in prompts if turn >= 0 else prompts[:1]:
            for k in found:
                drafter = DrafterConfig("model", k=k) if k else DrafterConfig("none")
                started = time.process_time()
                trace = complete(pair, config_of(pair, prompt, drafter, temperature, tokens, max(turn, 0)))
                found[k] += [Timed(trace, len(trace.tokens) / (time.process_time() - started))] if turn >= 0 else []
    return found


def pooled(traces: Sequence[Trace]) -> tuple[Acceptance, Times]:
    """Of all steps together, and the median times of the runs."""
    whole = acceptance_of(replace(traces[0], steps=tuple(step for trace in traces for step in trace.steps)))
    times = [each for trace in traces if (each := times_of(trace))]
    assert whole is not None
    return whole, Times(*map(median, zip(*times, strict=True)))


def main(arguments: Sequence[str] | None = None) -> int:
    command = Command("bench.growth.planner", __doc__, prompts=8, rounds=3, tokens=128)
    options = command.read(arguments)
    torch.set_num_threads(1)
    pair, prompts = bundled(device="cpu", dtype="float32"), mixed_prompts(options.prompts)
    tables, data = [], {}
    for temperature in (0.0, 1.0):
        found = runs(pair, prompts, options.rounds, options.tokens, temperature)
        run, times = pooled([trace for trace, _ in found[DEFAULT]])
        costs = costs_of(times, median(single_pass_s(trace) for trace, _ in found[0]))
        rows = []
        for point in planned(run, costs, max(KS)):
            measured = spread(one.speed / none.speed for one, none in zip(found[point.k], found[0], strict=True))
            tau = sum(len(trace.tokens) for trace, _ in found[point.k]) / sum(
                len(trace.steps) for trace, _ in found[point.k]
            )
            error = f"{100 * (point.speedup / measured.median - 1):+.0f} %"
            rows.append((str(point.k), point.tokens, tau, point.speedup, str(measured), error))
        heads = ("K", "tokens a pass, planned", "measured", "speed-up, planned", "measured", "error")
        text = (
            f"A draft pass costs {costs.draft:.3f}, each further token of a pass {costs.slope:.4f} of a pass of one token.",
        )
        tables.append(Table(heads, rows, f"Temperature {temperature:g}", text))
        data[f"{temperature:g}"] = {"rates": run.rates, "costs": costs._asdict(), "rows": rows}
    load = " ".join(f"{each:.1f}" for each in psutil.getloadavg())
    facts = {"load average at the end": f"{load} (1, 5, 15 min)"}
    notes = [
        f"{len(prompts)} prompts × {options.rounds} rounds, rule strict, at most {options.tokens} new tokens",
        "costs are medians of wall time, as on the page, and measured speeds processor time: other programs disturb the former",
    ]
    return command.publish(
        Report("The planner against a sweep over K", notes, tables=tables, data=data, facts=facts), "planner", pair.device
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
