"""``python -m bench.profile``: the time of the parts of a step, per drafter, with the step's lower
bound by memory bandwidth.

Every part is timed by a wrapper around its function, with the device synchronised before and after,
so that parts do not overlap: a step is a little slower than in a run. The runs of the drafters
alternate.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from functools import wraps
from typing import Any
from unittest.mock import patch

import torch

from bench.common.bounds import bandwidth, weight_bytes
from bench.common.command import measurement
from bench.common.decoding import DRAFTERS, bundled, complete, config_of, mixed_prompts
from bench.common.report import Report, Table
from mars_core.decoder import synchronise
from mars_core.decoder.fast_cache import FastCache
from mars_core.drafting import Drafter
from mars_core.drafting.draft_model import ModelDrafter
from mars_core.eagle3.cache import HeadCache
from mars_core.eagle3.drafter import Eagle3Drafter
from mars_core.engine import engine
from mars_core.models import Pair
from mars_core.text.assembly import Assembler
from mars_core.types import DrafterConfig, PromptConfig, Summary

PREFILL, TARGET, DRAFT, COMMIT = "prefill", "target pass", "draft passes", "commit"
PARTS: Sequence[tuple[Any, str, str]] = (  # owner and name of a function, name of the part
    (FastCache, "_pass", TARGET),
    (FastCache, "move", COMMIT),
    (HeadCache, "_through_layer", DRAFT),
    (engine, "judge", "rule and telemetry"),
    (engine, "walk", "walk on the host"),
    (engine, "words", "random numbers"),
    (engine, "chance", "random numbers"),
    (Assembler, "step", "text and tokens"),
    *(
        (drafter, name, COMMIT if name == "commit" else "drafter, around its passes")
        for drafter in (ModelDrafter, Eagle3Drafter, Drafter)
        for name in ("draft", "inputs", "commit")
    ),
)


@dataclass
class Clock:
    """Seconds by part, nested parts counted once (with the inner one). ``phase``: what the engine
    does; a model's pass belongs to the target while it verifies, else to the drafter, and to no
    step during the prefill."""

    device: torch.device
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    inside: list[float] = field(default_factory=list)
    phase: str = ""

    def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            synchronise(self.device)
            self.inside.append(0.0)
            started = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                synchronise(self.device)
                spent = time.perf_counter() - started
                passes = {
                    TARGET: self.phase or DRAFT,
                    DRAFT: PREFILL if self.phase == PREFILL else DRAFT,
                }
                self.seconds[passes.get(part, part)] += spent - self.inside.pop()
                if self.inside:
                    self.inside[-1] += spent

        return wrapper

    def during(self, phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any) -> Any:
            self.phase = phase
            try:
                return function(*args)
            finally:
                self.phase = ""

        return wrapper

    @contextmanager
    def running(self) -> Iterator[None]:
        with ExitStack() as patches:
            for owner, name, part in PARTS:
                patches.enter_context(
                    patch.object(owner, name, self.timed(part, getattr(owner, name)))
                )
            for kind, name, phase in (
                (engine.Verifier, "verify", TARGET),
                (engine.Engine, "prefill", PREFILL),
            ):
                patches.enter_context(
                    patch.object(kind, name, self.during(phase, getattr(kind, name)))
                )
            yield


@dataclass(frozen=True, slots=True)
class Profile:
    """Milliseconds per step."""

    parts: dict[str, float]
    step_ms: float
    plain_ms: float  # a step without the wrappers
    steps: int
    tokens: int


def profile(
    pair: Pair,
    drafter: DrafterConfig,
    prompts: Sequence[PromptConfig],
    tokens: int,
    temperature: float,
) -> Profile:
    """Two decodings of every prompt: with wrappers, and without."""
    clock = Clock(pair.device)
    timed, plain = list[Summary](), list[Summary]()
    for prompt in prompts:
        config = config_of(pair, prompt, drafter, temperature, tokens, 0)
        with clock.running():
            timed.append(complete(pair, config).summary)
        plain.append(complete(pair, config).summary)
    steps, step_ms = sum(each.steps for each in timed), _step_ms(timed)
    parts = {
        name: 1000 * seconds / steps for name, seconds in clock.seconds.items() if name != PREFILL
    }
    parts["the rest"] = step_ms - sum(parts.values())
    return Profile(parts, step_ms, _step_ms(plain), steps, sum(each.new_tokens for each in timed))


def _step_ms(runs: Sequence[Summary]) -> float:
    """Milliseconds per step, without the prefill."""
    return (
        1000 * sum(each.wall_s - each.prefill_s for each in runs) / sum(each.steps for each in runs)
    )


def bytes_read(pair: Pair, drafter: DrafterConfig) -> int:
    """Bytes of weights read in a step: the target once, the drafter once per pass."""
    passes = drafter.tree.depth if drafter.tree else drafter.k
    each = {"model": pair.draft, "eagle3": pair.head}.get(drafter.kind)
    return weight_bytes(pair.target) + (passes * weight_bytes(each) if each is not None else 0)


def report(pair: Pair, found: Mapping[str, Profile]) -> Report:
    """One column per drafter."""
    bytes_a_s = bandwidth(pair.device, weight_bytes(pair.target))
    read = [bytes_read(pair, DRAFTERS[name]) for name in found]
    names = sorted({part for each in found.values() for part in each.parts} - {"the rest"})
    rows = [
        [part, *(f"{each.parts.get(part, 0):.3f}" for each in found.values())]
        for part in (*names, "the rest")
    ]
    rows += [
        ["**sum (timed)**", *(f"{each.step_ms:.3f}" for each in found.values())],
        ["a step in a run", *(f"{each.plain_ms:.3f}" for each in found.values())],
        ["tokens a step", *(f"{each.tokens / each.steps:.2f}" for each in found.values())],
        ["bytes that must be read", *(f"{each / 1e6:.1f} MB" for each in read)],
        ["lower bound", *(f"{1000 * each / bytes_a_s:.3f}" for each in read)],
    ]
    notes = [
        f"rule strict; milliseconds a step; the lower bound is the bytes over {bytes_a_s / 1e9:.0f} GB/s, measured on a buffer as"
        " large as the target"
    ]
    data = {"profiles": {name: asdict(each) for name, each in found.items()}}
    return Report(
        "Where a step's time goes",
        notes,
        tables=[Table(("part", *found), rows)],
        data=data,
        device=pair.device,
    )


@measurement("profile", prompts=8, max_new_tokens=128, temperature=1.0)
def main(options: Namespace) -> Report:
    pair, prompts = bundled(), mixed_prompts(options.prompts)
    for drafter in DRAFTERS.values():
        profile(pair, drafter, prompts[:1], 32, options.temperature)
    found = {
        name: profile(pair, drafter, prompts, options.max_new_tokens, options.temperature)
        for name, drafter in DRAFTERS.items()
    }
    return report(pair, found)
