"""How often strict writes another text than the target alone, and a continued run another than the whole one."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

from bench.coupled import prompts
from bench.cuda.trial import Figure, Trial, switched
from bench.methods import Ours
from mars_core.models import Pair
from mars_core.session import Session
from mars_core.types import PromptConfig

TEXTS = 16


def texts(trial: Trial) -> Iterator[Figure]:
    """With exact passes, where chains must never differ, then with free ones."""
    pair, cases = trial.pair("qwen"), list(product((True, False), (0.0, 1.0)))
    for at, (exact, temperature) in enumerate(cases):
        yield from _counted(trial, switched(pair, exact=exact), temperature, trial.share(1 / (len(cases) - at)))


def _counted(trial: Trial, pair: Pair, temperature: float, until: float) -> Iterator[Figure]:
    other, broken, count = Counter[str](), Counter[str](), 0
    for seed, prompt in enumerate(prompts(2 if trial.tiny else TEXTS)):
        wanted = trial.ours(pair, "none", temperature)(prompt, seed).ids
        for name in trial.drafters:
            method = trial.ours(pair, name, temperature)
            found = method(prompt, seed).ids
            other[name] += found != wanted
            broken[name] += continued(method, prompt, seed, found) != found
        count += 1
        if time.perf_counter() > until:
            break
    where = f"T = {temperature:g}, {'exact' if pair.exact else 'free'} passes"
    for name, drafter in trial.drafters.items():
        most = 0.0 if pair.exact and drafter.tree is None else None
        if name != "none":
            yield Figure(f"strict is not none: {name}, {where}", other[name], f"of {count} texts", most=most)
        yield Figure(f"continued is not whole: {name}, {where}", broken[name], f"of {count} texts", most=most)


def continued(method: Ours, prompt: PromptConfig, seed: int, ids: Sequence[int]) -> tuple[int, ...]:
    """What a run writes that is given the first half of ``ids``, which the run with this seed wrote, with that half."""
    session, config = Session(method.pair), method.config(prompt, seed)
    given = tuple(ids[: len(ids) // 2])
    passes = session.check(config).config.passes
    rest = replace(config, prefix=given, max_new_tokens=method.tokens - len(given), passes=passes)
    return given + tuple(token.id for step in session.start(rest) for token in step.emitted)
