"""``python -m bench.cuda.rehearse``: loading, drafters and rules on a fake device
(``bench.cuda.fake``).

Exit status 1 after a fault.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, product
from traceback import walk_tb

import torch
from transformers.utils import logging as transformers_logging

from bench.common.command import Options, Reports, measurement
from bench.common.decoding import Ours
from bench.common.report import BenchReport, MeasuredFigure, ResultTable
from bench.cuda.fake import DEVICE, FakeDevice, fake_device, where
from bench.cuda.trial import switched
from mars_core.drafting import DRAFTERS
from mars_core.engine import RawStep
from mars_core.engine.build import build, kind_of, verifier_of
from mars_core.models import BUNDLED_PAIR, Pair
from mars_core.models.catalog import SMALL_TREE
from mars_core.models.loading import load, plan
from mars_core.rules import RULES
from mars_core.session import Session
from mars_core.types import DrafterConfig, Processors, PromptConfig, Sampling

TOKENS, K, SLOTS = 8, 3, 3
PREFIX = 2  # tokens of the prompt that are read as the output of an earlier run
PROMPT = PromptConfig(BUNDLED_PAIR.prompts[1])
_PROCESSORS = Processors(0.01, 0.95, 1.1, 0.1, 0.1, 3, (("[5]", 1.0), ("[7, 6]", -1.0)))
SAMPLINGS = (Sampling(), Sampling(1.0), Sampling(0.8, 50, 0.95, _PROCESSORS))
ENDS = ("all accepted", "none accepted", "a path that is moved")  # of steps with drafts


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """``ends``: how many steps ended in which way; ``faults``: ``file:line: what``."""

    device: FakeDevice
    ends: Counter[str] = field(default_factory=Counter)
    rules: set[str] = field(default_factory=set)
    faults: dict[str, None] = field(default_factory=dict)

    def run(
        self,
        pair: Pair,
        rule: str,
        drafter: DrafterConfig,
        sampling: Sampling,
        tokens: int = TOKENS,
        slots: int = 1,
    ) -> None:
        """Runs in all slots; after faults another one with the same engine, since constants and captures are
        from the first. Raises ValueError for a rule that does not fit."""
        config = Ours(pair, rule, drafter, 0.0, tokens).config(PROMPT, 0)
        config, ids = Session(pair).check(replace(config, sampling=sampling))
        kind = kind_of(pair, config, len(ids) + tokens, slots)
        engine, sent = build(pair, kind), 1 + slots * bool(sampling.processors.chosen)
        self.rules.add(rule)
        for _ in range(2):
            self.device.faults.clear()
            try:
                for slot in range(slots):
                    verifier = verifier_of(pair, config, kind, True)
                    engine.begin(slot, verifier, ids, tokens - slot, slot, PREFIX)
                while engine.busy:
                    self.device.copies = Counter(cuda=sent, cpu=1)
                    for _, step in engine.step():
                        self.ends.update(ends(step))
            except Exception as error:  # noqa: BLE001 - whatever ends a run is a fault
                stack = reversed([*walk_tb(error.__traceback__)])
                self.device.faults[f"{where(stack)}: {error}"] = None
            finally:
                self.device.copies = None
            if not self.device.faults:
                return
        self.faults.update(self.device.faults)


def ends(step: object) -> Iterator[str]:
    assert isinstance(step, RawStep), step
    nodes, path = step.verdict
    if len(nodes) > 1:
        holds = (not nodes.children[path[-1]], len(path) == 1, path != tuple(range(len(path))))
        yield from (end for end, true in zip(ENDS, holds, strict=True) if true)


def drafters() -> Iterator[DrafterConfig]:
    """Every drafter, with chains and with trees, in all of its modes."""
    for kind in DRAFTERS.values():
        for mode, tree in product(kind.modes, (None, SMALL_TREE)):
            if kind.trees if tree else kind.chains or not kind.trees:
                yield DrafterConfig(kind.name, k=K, mode=mode, tree=tree)


def loaded() -> Pair:
    pair = load(
        BUNDLED_PAIR,
        plan(BUNDLED_PAIR, lambda _: None),
        DEVICE,
        torch.bfloat16,
        graphs=True,
        progress=lambda _: None,
    )
    assert pair.graphs and "failed" not in pair.inexact
    return pair


def checks(rehearsal: Rehearsal, pair: Pair) -> Iterator[str]:
    """The name of each, once its runs have ended: with all rules only drafters that have a model,
    in eager steps and without processors, which rules do not see."""
    pairs = (switched(pair, graphs=False), pair)
    for drafter, sampling, each in product(drafters(), SAMPLINGS, pairs):
        kind, form = DRAFTERS[drafter.kind], "tree" if drafter.tree else "chain"
        if sampling.temperature == 0 and drafter.mode is not kind.modes[0]:
            continue  # modes make no difference
        full = kind.part and not sampling.processors.chosen and not each.graphs
        runs = [(rule.name, 1) for rule in RULES.values() if full or rule.lossless]
        for rule, slots in [*runs, ("strict", SLOTS)]:
            with suppress(ValueError):
                rehearsal.run(each, rule, drafter, sampling, slots=slots)
        path = "captured" if each.graphs else "eager"
        yield f"{kind.title}, {drafter.mode.value} {form}, T = {sampling.temperature:g}, {path}"


@measurement("bench.cuda.rehearse", __doc__)
def main(_options: Options) -> Reports:
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    figures, before = list[MeasuredFigure](), 0
    with fake_device() as device:
        pair = loaded()
        rehearsal = Rehearsal(device, faults=device.faults.copy())
        for name in chain(["loading"], checks(rehearsal, pair)):
            count, before = len(rehearsal.faults) - before, len(rehearsal.faults)
            figures.append(MeasuredFigure(name, count, "faults", most=0))
            sys.stdout.write(f"{name}: {count} faults\n")
            sys.stdout.flush()
    figures += [MeasuredFigure(f"steps, {end}", rehearsal.ends[end], least=1) for end in ENDS]
    figures.append(MeasuredFigure("rules", len(rehearsal.rules), least=len(RULES)))
    notes = [
        "bundled pair in bfloat16; a fault is what CUDA refuses or the host waits for",
        f"{time.process_time() / 60:.1f} minutes of processor time",
    ]
    yield BenchReport(
        "CUDA rehearsed on a fake device",
        notes,
        figures,
        [ResultTable(("fault",), [(each,) for each in rehearsal.faults], "Faults")],
        failed=not all(figure.reached for figure in figures),
        name="cuda-fake",
    )


if __name__ == "__main__":
    raise SystemExit(main())
