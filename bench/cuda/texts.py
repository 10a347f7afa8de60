"""How often strict writes another text than the target alone, and a continued run another than the whole one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import product

from bench.common.report import Figure
from bench.common.texts import Differences
from bench.coupled import prompts
from bench.cuda.trial import Trial, switched
from mars_core.models import Pair

TEXTS = 16


def texts(trial: Trial) -> Iterator[Figure]:
    """With exact passes, where chains must never differ, then with free ones."""
    pair, cases = trial.pair("qwen"), list(product((True, False), (0.0, 1.0)))
    for at, (exact, temperature) in enumerate(cases):
        yield from _counted(trial, switched(pair, exact=exact), temperature, trial.share(1 / (len(cases) - at)))


def _counted(trial: Trial, pair: Pair, temperature: float, until: float) -> Iterator[Figure]:
    methods, found = {name: trial.ours(pair, name, temperature) for name in trial.drafters}, Differences()
    for seed, prompt in enumerate(prompts(2 if trial.tiny else TEXTS)):
        found.add(methods, prompt, seed, continued=methods, repeated="n-grams")
        if time.perf_counter() > until:
            break
    where, count = f"T = {temperature:g}, {'exact' if pair.exact else 'free'} passes", f"of {found.texts} texts"
    for name, drafter in trial.drafters.items():
        most = 0.0 if pair.exact and drafter.tree is None else None
        if name != "none":
            yield Figure(f"strict is not none: {name}, {where}", found.strict[name], count, most=most)
        yield Figure(f"continued is not whole: {name}, {where}", found.continued[name], count, most=most)
