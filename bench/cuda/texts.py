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
    none = trial.ours(pair, "none", temperature)
    for seed, prompt in enumerate(prompts(2 if trial.tiny else TEXTS)):
        whole = written(none, prompt, seed, ())
        again = (*whole[: trial.tokens // 3], whole[0])  # begins anew, so that n-grams know what follows
        for name in trial.drafters:
            method, given = trial.ours(pair, name, temperature), again if name == "n-grams" else ()
            found = written(method, prompt, seed, given)
            half = len(found) // 2
            other[name] += found != (written(none, prompt, seed, given) if given else whole)
            broken[name] += written(method, prompt, seed, (*given, *found[:half])) != found[half:]
        count += 1
        if time.perf_counter() > until:
            break
    where = f"T = {temperature:g}, {'exact' if pair.exact else 'free'} passes"
    for name, drafter in trial.drafters.items():
        most = 0.0 if pair.exact and drafter.tree is None else None
        if name != "none":
            yield Figure(f"strict is not none: {name}, {where}", other[name], f"of {count} texts", most=most)
        yield Figure(f"continued is not whole: {name}, {where}", broken[name], f"of {count} texts", most=most)


def written(method: Ours, prompt: PromptConfig, seed: int, given: Sequence[int]) -> tuple[int, ...]:
    """New tokens after ``given`` ones, up to the length that all of a method's texts have."""
    config = replace(method.config(prompt, seed), prefix=tuple(given), max_new_tokens=method.tokens - len(given))
    return tuple(token.id for step in Session(method.pair).start(config) for token in step.emitted)
