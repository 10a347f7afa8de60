"""``python -m bench.profile``: where a step's time goes, per drafter, with the memory-bandwidth floor of the step beside it.

Every part is timed by a wrapper around its function, with the device synchronised before and after, so that parts do not overlap:
a whole step is a little slower here than in a run. The runs of the drafters take turns.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import torch

from bench.machine import RESULTS, machine, stem
from bench.methods import DRAFTERS, lossless
from bench.prompts import mixed_prompts
from mars_core.decoder import synchronise
from mars_core.decoder.fast_cache import FastCache
from mars_core.drafting.base import NoDrafter
from mars_core.drafting.eagle3 import Eagle3Drafter
from mars_core.drafting.model import ModelDrafter
from mars_core.drafting.ngram import NgramDrafter
from mars_core.eagle3.cache import HeadCache
from mars_core.engine import engine, verifier
from mars_core.models import CATALOG, ModelPool, Pair
from mars_core.session import Session, run_config
from mars_core.text.assembly import Assembler
from mars_core.types import DrafterConfig, PromptConfig, Sampling

PREFILL = "prefill"
KINDS = (ModelDrafter, Eagle3Drafter, NgramDrafter, NoDrafter)


@dataclass
class Clock:
    """Seconds by part, nested parts counted once (with the inner one)."""

    device: torch.device
    seconds: defaultdict[str, float]
    inside: list[float]

    def timed(self, part: Callable[[Any], str], function: Callable[..., Any]) -> Callable[..., Any]:
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
                self.seconds[part(args[0])] += spent - self.inside.pop()
                if self.inside:
                    self.inside[-1] += spent

        return wrapper


@contextmanager
def profiled(clock: Clock) -> Iterator[None]:
    """Wraps the parts of a step. A model's pass belongs to the target while the engine reads, else to the drafter, and to no step
    while the prompt is read."""
    reading: list[bool] = []
    beginning: list[bool] = []
    verify, prefill = verifier.Verifier.verify, engine.Engine.prefill

    def marked(*arguments: Any) -> Any:
        reading.append(True)
        try:
            return verify(*arguments)
        finally:
            reading.pop()

    def begun(*arguments: Any) -> None:
        beginning.append(True)
        try:
            prefill(*arguments)
        finally:
            beginning.pop()

    def forward(_self: object) -> str:
        return PREFILL if beginning else "target pass" if reading else "draft passes"

    with ExitStack() as patches:

        def wrap(owner: Any, name: str, part: str | Callable[[Any], str]) -> None:
            named = part if callable(part) else lambda _self: part
            patches.enter_context(patch.object(owner, name, clock.timed(named, getattr(owner, name))))

        patches.enter_context(patch.object(verifier.Verifier, "verify", marked))
        patches.enter_context(patch.object(engine.Engine, "prefill", begun))
        wrap(FastCache, "_pass", forward)
        wrap(FastCache, "move", "commit")
        wrap(HeadCache, "_through_layer", lambda _self: PREFILL if beginning else "draft passes")
        wrap(verifier, "judge", "rule and telemetry")
        wrap(engine, "_walked", "walk on the host")
        wrap(engine, "step_uniforms", "uniforms")
        for drafter in KINDS:
            wrap(drafter, "draft", "drafter, around its passes")
            wrap(drafter, "inputs", "drafter, around its passes")
            wrap(drafter, "commit", "commit")
        wrap(Assembler, "step", "text and tokens")
        yield


@dataclass
class Profile:
    """Milliseconds a step."""

    parts: dict[str, float]
    step_ms: float
    plain_ms: float  # a step without the wrappers
    steps: int
    tokens: int


def profile(
    pair: Pair, drafter: DrafterConfig, prompts: list[PromptConfig], tokens: int, temperature: float
) -> Profile:
    """Two decodings of every prompt: with wrappers, and without."""
    clock = Clock(pair.device, defaultdict(float), [])
    steps = emitted = 0
    wall = plain = 0.0
    for prompt in prompts:
        with profiled(clock):
            seconds, count, new = _decode(pair, drafter, prompt, tokens, temperature)
        wall, steps, emitted = wall + seconds, steps + count, emitted + new
        plain += _decode(pair, drafter, prompt, tokens, temperature)[0]
    parts = {name: 1000 * seconds / steps for name, seconds in clock.seconds.items() if name != PREFILL}
    parts["the rest"] = 1000 * wall / steps - sum(parts.values())
    return Profile(parts, 1000 * wall / steps, 1000 * plain / steps, steps, emitted)


def _decode(
    pair: Pair, drafter: DrafterConfig, prompt: PromptConfig, tokens: int, temperature: float
) -> tuple[float, int, int]:
    """Seconds after the prefill, steps, tokens."""
    config = run_config(
        pair, prompt=prompt, rule=lossless(drafter), drafter=drafter, sampling=Sampling(temperature),
        max_new_tokens=tokens, seed=0,
    )  # fmt: skip
    run = Session(pair).start(config)
    steps = list(run)
    summary = run.trace().summary
    return summary.wall_s - summary.prefill_s, len(steps), sum(len(step.emitted) for step in steps)


def floor_ms(pair: Pair, drafter: DrafterConfig, bandwidth: float) -> tuple[float, float]:
    """Bytes that a step cannot but read (target once, drafter once a pass), and the milliseconds that this takes."""
    target = weight_bytes(pair.target)
    passes = drafter.tree.depth if drafter.tree else drafter.k
    each = {"model": pair.draft, "eagle3": pair.head}.get(drafter.kind)
    total = target + (passes * weight_bytes(each) if each is not None else 0)
    return total, 1000 * total / bandwidth


def weight_bytes(model: Any) -> int:
    """Of all weights that a pass reads: an embedding table is read one row a token, unless the output layer shares it."""
    own: int = sum(each.nbytes for each in (*model.parameters(), *model.buffers()) if not each.is_meta)
    table = getattr(model, "embed_tokens", None)
    return own - int(table.weight.nbytes if table is not None else 0)


def read_bandwidth(device: torch.device, size: int) -> float:
    """Bytes a second at which a buffer of ``size`` bytes is read (summed), the best of many."""
    buffer = torch.ones(max(1, size // 4), device=device)
    times = []
    for _ in range(50):
        synchronise(device)
        started = time.perf_counter()
        buffer.sum()
        synchronise(device)
        times.append(time.perf_counter() - started)
    return buffer.nbytes / median(times)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.profile", description=__doc__)
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--max-new-tokens", type=int, default=128)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--name", default="profile", help="of the file in the results' folder")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    pair = ModelPool().get(next(spec for spec in CATALOG if spec.key == "bundled"))
    prompts = mixed_prompts(options.prompts)
    for drafter in DRAFTERS.values():
        profile(pair, drafter, prompts[:1], 32, options.temperature)
    found = {
        name: profile(pair, drafter, prompts, options.max_new_tokens, options.temperature)
        for name, drafter in DRAFTERS.items()
    }
    text = report(pair, found, options)
    sys.stdout.write(text)
    stem(options.out, options.name, str(pair.device.type)).with_suffix(".md").write_text(text, encoding="utf-8")
    return 0


def report(pair: Pair, found: Mapping[str, Profile], options: argparse.Namespace) -> str:
    """Markdown: one column a drafter."""
    bandwidth = read_bandwidth(pair.device, weight_bytes(pair.target))
    names = sorted(
        {part for each in found.values() for part in each.parts}, key=lambda part: (part == "the rest", part)
    )
    rows = [[part, *(f"{each.parts.get(part, 0):.3f}" for each in found.values())] for part in names]
    rows += [
        ["**sum (timed)**", *(f"{each.step_ms:.3f}" for each in found.values())],
        ["a step in a run", *(f"{each.plain_ms:.3f}" for each in found.values())],
        ["tokens a step", *(f"{each.tokens / each.steps:.2f}" for each in found.values())],
        [
            "bytes that must be read",
            *(f"{floor_ms(pair, DRAFTERS[name], bandwidth)[0] / 1e6:.1f} MB" for name in found),
        ],
        ["floor", *(f"{floor_ms(pair, DRAFTERS[name], bandwidth)[1]:.3f}" for name in found)],
    ]
    lines = [
        "# Where a step's time goes",
        "",
        f"- command: `python -m bench.profile --prompts {options.prompts} --max-new-tokens {options.max_new_tokens}"
        f" --temperature {options.temperature:g}`",
        *(f"- {name}: {value}" for name, value in machine(pair.device).items()),
        f"- rule strict; milliseconds a step; the floor is the bytes over {bandwidth / 1e9:.0f} GB/s, at which this machine"
        " read a buffer as large as the target",
        "",
        "| part | " + " | ".join(found) + " |",
        "|---|" + "---:|" * len(found),
        *("| " + " | ".join(row) + " |" for row in rows),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
