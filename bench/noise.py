"""``python -m bench.noise``: the speed of coupled, greedy and sampled drafts at temperature 1, and
the cost of the noise with which tokens are drawn."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import product
from statistics import median

import torch

from bench.common.command import Options, Reports, measurement
from bench.common.decoding import COMPARED, DRAFTERS, Ours, loaded, mixed_prompts
from bench.common.measure import Samples, interleaved, ratio, speed_table, timed
from bench.common.report import BenchReport, MeasuredFigure
from mars_core.sampling import Use, chance, words
from mars_core.types import DraftMode

K = 5
STRICT = {mode: f"draft model, {mode}, strict" for mode in DraftMode}
COUPLED = STRICT[DraftMode.COUPLED]
GOALS = {DraftMode.GREEDY: 1.25, DraftMode.SAMPLED: 1.0}  # of coupled strict over these, at least


def together(samples: Samples, name: str) -> float:
    """Return the tokens per second of all texts together."""
    taken = samples[name]
    return sum(each.tokens for each in taken) / sum(each.seconds for each in taken)


def cost(method: Ours) -> MeasuredFigure:
    """Measure the cost of making the random numbers of a step, beside the step."""
    size = method.pair.vocabulary
    random_words = torch.tensor(words(0, 0, K + 1)).view(-1, len(Use))
    seconds = timed(lambda: words(0, 0, K + 1), 200)
    seconds += timed(lambda: chance(random_words, size, DraftMode.COUPLED, 1.0), 200)
    step = median(each.step_s for each in method.timed if each.drafted)
    note = f"{1000 * seconds:.3f} ms of {1000 * step:.2f}, {size:,} ids"
    return MeasuredFigure("noise, share of a step", 100 * seconds / step, "%", note, most=3)


@measurement("bench.noise", __doc__, prompts=12, rounds=3, max_new_tokens=128)
def main(options: Options) -> Reports:
    pair, tokens = loaded(), options.max_new_tokens
    methods = {"none": Ours(pair, "none", DRAFTERS["none"], 1.0, tokens)}
    for name, mode, rule in product(COMPARED[1:], DraftMode, ("strict", "mars")):
        if mode is not DraftMode.SAMPLED or name == "draft model":
            drafter = replace(DRAFTERS[name], mode=mode)
            methods[f"{name}, {mode}, {rule}"] = Ours(pair, rule, drafter, 1.0, tokens)
    prompts = mixed_prompts(options.prompts)
    samples = interleaved(methods, prompts, options.rounds, clock=time.process_time)
    figures = []
    for mode, least in GOALS.items():
        title = f"speed, coupled over {mode} strict, all texts together"
        speedup = together(samples, COUPLED) / together(samples, STRICT[mode])
        note = f"text by text {ratio(samples, COUPLED, STRICT[mode])}"
        figures.append(MeasuredFigure(title, speedup, "×", note, least=least))
    figures.append(cost(methods[COUPLED]))
    table = speed_table(samples, "none", "Temperature 1")
    notes = ["new tokens per second of processor time; methods alternate by prompt at random"]
    yield BenchReport("Coupled drafts and noise", notes, figures, [table], device=pair.device)


if __name__ == "__main__":
    raise SystemExit(main())
