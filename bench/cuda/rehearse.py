"""``python -m bench.cuda.rehearse``: loading, drafters and rules on a fake device (``bench.cuda.fake``).

Exit status 1 if a fault was found.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import product
from traceback import walk_tb

import torch
from transformers.utils import logging as transformers_logging

from bench.common.command import Command
from bench.common.decoding import config_of
from bench.common.report import BenchReport, MeasuredFigure, ResultTable
from bench.cuda.fake import DEVICE, FakeDevice, Fault, fake_device, where
from mars_core.decoder import is_fast
from mars_core.drafting import DRAFTERS
from mars_core.engine.build import build, kind_of
from mars_core.models import BUNDLED_PAIR, Pair
from mars_core.models.catalog import SMALL_TREE
from mars_core.models.loading import load, plan
from mars_core.rules import RULES
from mars_core.session import Session
from mars_core.types import (
    DrafterConfig,
    Processors,
    PromptConfig,
    RuleConfig,
    RunConfig,
    Sampling,
)
from mars_core.verification import StepVerdict

TOKENS, K = 8, 3
PROMPT = PromptConfig(BUNDLED_PAIR.prompts[1])
_PROCESSORS = Processors(0.01, 0.95, 1.1, 0.1, 0.1, 3, (("[5]", 1.0), ("[7, 6]", -1.0)))
SAMPLINGS = (Sampling(), Sampling(1.0), Sampling(0.8, 50, 0.95, _PROCESSORS))
ENDS = ("all accepted", "none accepted", "a path that is moved")  # of steps with drafts


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """Runs with one drafter."""

    ends: Counter[str] = field(default_factory=Counter)
    rules: set[str] = field(default_factory=set)
    faults: dict[Fault, None] = field(default_factory=dict)

    def add(self, rule: str, verdicts: Sequence[StepVerdict], faults: Sequence[Fault]) -> None:
        self.rules.add(rule)
        self.faults.update(dict.fromkeys(faults))
        for nodes, path in verdicts:
            leaf = not nodes.children[path[-1]]
            moved = path != tuple(range(len(path)))
            ends = zip(ENDS, (leaf, len(path) == 1, moved), strict=True)
            self.ends.update(end for end, holds in ends if holds and len(nodes) > 1)


def drafters() -> Iterator[DrafterConfig]:
    """Every drafter, with chains and with trees, in all of its modes."""
    for kind in DRAFTERS.values():
        for mode in kind.modes:
            if kind.chains or not kind.trees:
                yield DrafterConfig(kind.name, k=K, mode=mode)
            if kind.trees:
                yield DrafterConfig(kind.name, mode=mode, tree=SMALL_TREE)


def rehearsed(
    device: FakeDevice, pair: Pair, config: RunConfig
) -> tuple[list[StepVerdict], list[Fault]]:
    """The verdicts and faults of a run. Raises ValueError for an invalid configuration. It is
    repeated where there are some: constants are computed on first use."""
    checked = Session(pair).check(config)
    for _ in range(2):
        device.faults.clear()
        verdicts = list[StepVerdict]()
        try:
            verdicts += _run(device, pair, *checked)
        except Exception as error:  # noqa: BLE001 - whatever ends a run is a fault
            device.allowed = None
            stack = reversed([*walk_tb(error.__traceback__)])
            device.faults[Fault(where(stack), f"{type(error).__name__}: {error}")] = None
        if not device.faults:
            break
    return verdicts, [*device.faults]


def _run(
    device: FakeDevice, pair: Pair, config: RunConfig, ids: Sequence[int]
) -> Iterator[StepVerdict]:
    """A step may make one copy to the device, with processors two, and one back."""
    engine = build(pair, kind_of(pair, config, len(ids) + config.max_new_tokens, telemetry=True))
    sent = 2 if config.sampling.processors.chosen else 1
    engine.prefill(ids)
    steps = engine.steps(ids, config.max_new_tokens, config.seed)
    while True:
        device.allowed = Counter({"copy to cuda": sent, "copy to cpu": 1, "synchronisation": 1})
        step = next(steps, None)
        device.allowed = None
        if step is None:
            return
        yield step.verdict


def with_drafter(device: FakeDevice, pair: Pair, drafter: DrafterConfig, at: Sampling) -> Rehearsed:
    """Runs with every rule that the drafter can have; the lossless ones only of drafts from the
    text and with processors, which rules do not see."""
    result, kind = Rehearsed(), DRAFTERS[drafter.kind]
    for rule in RULES.values():
        if rule.lossless or (kind.part and not at.processors.chosen):
            chosen = RuleConfig(rule.name)
            config = config_of(pair, PROMPT, drafter, 0.0, TOKENS, 0, rule=chosen)
            with suppress(ValueError):
                result.add(rule.name, *rehearsed(device, pair, replace(config, sampling=at)))
    return result


def checks(device: FakeDevice) -> Iterator[tuple[str, Rehearsed]]:
    """Name and runs of every check."""
    pair = load(BUNDLED_PAIR, plan(BUNDLED_PAIR, _silent), DEVICE, torch.bfloat16, False, _silent)
    wrong = [] if is_fast(pair.target) and pair.exact else [Fault("loading", pair.inexact)]
    yield "loading", Rehearsed(faults=dict.fromkeys([*device.faults, *wrong]))
    for drafter, sampling in product(drafters(), SAMPLINGS):
        kind = DRAFTERS[drafter.kind]
        if sampling.temperature > 0 or drafter.mode is kind.modes[0]:  # else without effect
            words = (drafter.mode.value, kind.title, "tree" if drafter.tree else "")
            name = f"{' '.join(filter(None, words))}, T = {sampling.temperature:g}"
            yield name, with_drafter(device, pair, drafter, sampling)


def _silent(_message: str) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> int:
    command = Command("bench.cuda.rehearse", __doc__)
    command.read(arguments)
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    torch.set_num_threads(1)
    figures, total = list[MeasuredFigure](), Rehearsed()
    with fake_device() as device:
        for name, result in checks(device):
            note = ", ".join(f"{end}: {result.ends[end]}" for end in ENDS)
            figures.append(
                MeasuredFigure(
                    f"faults, {name}",
                    len(result.faults),
                    f"in {len(result.rules)} rules",
                    note,
                    most=0,
                )
            )
            total.ends.update(result.ends)
            total.rules.update(result.rules)
            total.faults.update(result.faults)
            sys.stdout.write(
                f"{name}: {len(result.rules)} rules, {len(result.faults)} faults; {note}\n"
            )
            sys.stdout.flush()
    figures += [MeasuredFigure(f"steps, {end}", total.ends[end], least=1) for end in ENDS]
    figures.append(MeasuredFigure("rules", len(total.rules), least=len(RULES)))
    table = ResultTable(("line", "fault"), [*total.faults], "Faults")
    failed = not all(figure.reached for figure in figures)
    notes = ["bundled pair in bfloat16, eager; a fault is what CUDA refuses or the host waits for"]
    report = BenchReport("CUDA rehearsed on a fake device", notes, figures, [table], failed=failed)
    sys.stdout.write("".join(f"{where}: {what}\n" for where, what in total.faults))
    return command.finish(report, "cuda-fake")


if __name__ == "__main__":
    sys.exit(main())
