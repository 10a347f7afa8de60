"""``python -m bench.noise``: the speed of coupled, greedy and sampled drafts at temperature 1, and
the cost of the noise with which tokens are drawn."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from statistics import median

import torch

from bench.common.bounds import timed
from bench.common.command import CPU, Command
from bench.common.decoding import DRAFTERS, Ours, bundled, mixed_prompts
from bench.common.measure import interleaved, ratio, speed_table
from bench.common.report import BenchReport, MeasuredFigure
from mars_core.sampling import Use, chance, words
from mars_core.types import DraftMode, RuleConfig

K = 5
STRICT = {mode: f"draft model, {mode}, strict" for mode in DraftMode}
GOALS = {DraftMode.GREEDY: 1.25, DraftMode.SAMPLED: 1.0}  # of coupled strict over these, at least


def cost(method: Ours) -> MeasuredFigure:
    """Of making the random numbers of a step, beside the step."""
    size = method.pair.vocabulary
    random_words = torch.tensor(words(0, 0, K + 1)).view(-1, len(Use))
    seconds = timed(lambda: words(0, 0, K + 1), CPU, 200)
    seconds += timed(lambda: chance(random_words, size, DraftMode.COUPLED, 1.0), CPU, 200)
    step = median(each.step_s for each in method.timed if each.drafted)
    note = f"{1000 * seconds:.3f} ms of {1000 * step:.2f}, {size:,} ids"
    return MeasuredFigure("noise, share of a step", 100 * seconds / step, "%", note, most=3)


def main(arguments: Sequence[str] | None = None) -> int:
    command = Command("bench.noise", __doc__, prompts=12, rounds=3, max_new_tokens=128)
    options = command.read(arguments)
    pair, tokens = bundled(), options.max_new_tokens
    methods = {"none": Ours(pair, RuleConfig("none"), DRAFTERS["none"], 1.0, tokens)}
    drafts = ("draft model", "EAGLE-3 chain", "EAGLE-3 tree")
    for name, mode, rule in product(drafts, DraftMode, ("strict", "mars")):
        if mode is not DraftMode.SAMPLED or name == "draft model":
            drafter = replace(DRAFTERS[name], mode=mode)
            methods[f"{name}, {mode}, {rule}"] = Ours(pair, RuleConfig(rule), drafter, 1.0, tokens)
    prompts = mixed_prompts(options.prompts)
    samples = interleaved(methods, prompts, options.rounds, clock=time.process_time)
    figures, coupled = [], STRICT[DraftMode.COUPLED]
    for mode, least in GOALS.items():
        speeds = [
            sum(each.tokens for each in samples[name]) / sum(each.seconds for each in samples[name])
            for name in (coupled, STRICT[mode])
        ]
        note = f"text by text {ratio(samples, coupled, STRICT[mode])}"
        title = f"speed, coupled over {mode} strict, all texts together"
        figures.append(MeasuredFigure(title, speeds[0] / speeds[1], "×", note, least=least))
    figures.append(cost(methods[coupled]))
    table = speed_table(samples, "none", "Temperature 1")
    notes = ["new tokens per second of processor time; methods alternate by prompt at random"]
    report = BenchReport("Coupled drafts and noise", notes, figures, [table], device=pair.device)
    return command.finish(report, "noise")


if __name__ == "__main__":
    sys.exit(main())
