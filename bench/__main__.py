"""``python -m bench``: our decoding and transformers' on the bundled pair, in one interleaved run.

Prints the report and writes it to bench/results/ with its JSON data. Exit status 1 if outputs differ that must be equal.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from bench.common.command import Command, machine
from bench.common.decoding import DRAFTERS, TREE, Ours, bundled, mixed_prompts
from bench.common.measure import Method, Samples, interleaved, median_speed, overall_tau, ratio, same_outputs
from bench.common.peers import assisted, greedy, prompted
from bench.common.report import Spread, store
from bench.document import FORMAT, Document, Equality, Goal, Measure, Methods, Row, Share, dump, text_of
from mars_core.models import Pair
from mars_core.models.source import WEIGHTS_FOLDER as WEIGHTS
from mars_core.rules import RULES
from mars_core.types import DrafterConfig, DraftMode, PromptConfig, RuleConfig

# At temperature 0: measure, method, baseline, goal, whether it is binding. The two below the tree's speed explain it.
GOALS: Sequence[tuple[Measure, str, str, float | None, bool]] = (
    ("speed", "none", "generate", 1.15, True),
    ("speed", "strict", "assisted", 1.6, True),
    ("speed", "strict", "none", 2.0, True),
    ("tau", "eagle3 tree", "strict", 1.25, True),
    ("speed", "eagle3 tree", "eagle3 chain", 1.0, False),
    ("tau", "eagle3 tree", "eagle3 chain", None, False),
    ("pace", "eagle3 tree", "eagle3 chain", None, False),
)
SHARE_GOAL = 0.03  # of the wall time, for the telemetry of every token
METERED = ("strict", "mars", "eagle3 tree")  # each compared with the meter off
EQUAL = (
    ("none", "generate"), ("assisted", "generate"),
    ("strict", "none"), ("eagle3 chain", "none"), ("eagle3 tree", "none"), ("ngram", "none"),
)  # must produce the same tokens  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    command = Command("bench", __doc__, prompts=12, rounds=3, k=5, max_new_tokens=128)
    options = command.read(arguments)
    pair, prompts = bundled(), mixed_prompts(options.prompts)
    samples = {
        temperature: interleaved(methods(pair, temperature, options.k, options.max_new_tokens), prompts, options.rounds)
        for temperature in (0.0, 1.0)
    }
    found = document(samples, command.line, options, prompts, pair.device)
    sys.stdout.write(text_of(found))
    store(command.path("bundled", pair.device), dump(found), text_of(found))
    return 0 if all(each.same == each.count for each in found.equalities) else 1


def methods(pair: Pair, temperature: float, k: int, max_new_tokens: int) -> Mapping[str, Method]:
    """By name, in the order of the table, its baseline first.

    transformers' methods are included at temperature 0, where all must produce the same tokens; above it also sampled drafts.
    """

    def ours(rule: str, drafter: DrafterConfig, *, meter: bool = True) -> Method:
        return Ours(pair, RuleConfig(rule), drafter, temperature, max_new_tokens, meter)

    chain = DrafterConfig("model", k=k)
    found = {
        "none": ours("none", DrafterConfig("none")),
        "strict": ours("strict", chain),
        "strict, meter off": ours("strict", chain, meter=False),
        "mars": ours("mars", chain),
        "mars, meter off": ours("mars", chain, meter=False),
        "eagle3 chain": ours("strict", DrafterConfig("eagle3", k=k)),
        "eagle3 tree": ours("strict", DRAFTERS["EAGLE-3 tree"]),
        "eagle3 tree, meter off": ours("strict", DRAFTERS["EAGLE-3 tree"], meter=False),
        "ngram": ours("strict", DrafterConfig("ngram", k=k)),
    }
    if temperature:
        return {**found, "strict, sampled": ours("strict", replace(chain, mode=DraftMode.SAMPLED))}
    load: Any = AutoModelForCausalLM.from_pretrained  # as transformers loads them, unprepared
    target, draft = (load(WEIGHTS / name, dtype=pair.dtype).to(pair.device).eval() for name in ("target", "draft"))
    eos = target.generation_config.eos_token_id
    peers = {"generate": greedy(target, eos), "assisted": assisted(target, draft, k, eos)}
    return {name: prompted(each, pair.tokenizer, max_new_tokens) for name, each in peers.items()} | found


def document(
    samples: Mapping[float, Samples], line: str, options: argparse.Namespace, prompts: Sequence[PromptConfig],
    device: torch.device,
) -> Document:  # fmt: skip
    """The stored result. ``line``: the command."""
    first = samples[0.0]
    return Document(
        format=FORMAT,
        command=line,
        machine=machine(device),
        options={
            **{name: str(getattr(options, name)) for name in ("prompts", "rounds", "k", "max_new_tokens")},
            "tree": f"{TREE.tokens} nodes, depth {TREE.depth}, top-k {TREE.top_k}",
            "theta": f"{RULES['mars'].values({})['theta']:g}",
        },
        prompts=tuple(prompt.text for prompt in prompts),
        tables=tuple(_table(temperature, each) for temperature, each in samples.items()),
        goals=tuple(
            Goal(measure, method, baseline, goal, binding, ratio(first, method, baseline, measure))
            for measure, method, baseline, goal, binding in GOALS
        ),
        share_goal=SHARE_GOAL,
        shares=tuple(_share(temperature, each, name) for temperature, each in samples.items() for name in METERED),
        equalities=tuple(
            Equality(method, baseline, *same_outputs(first, method, baseline)) for method, baseline in EQUAL
        ),
    )


def _table(temperature: float, samples: Samples) -> Methods:
    baseline = next(iter(samples))
    rows = (
        Row(
            name,
            median_speed(own),
            ratio(samples, name, baseline),
            overall_tau(own),
            sum(s.tokens for s in own),
            tuple(own),
        )
        for name, own in samples.items()
    )
    return Methods(temperature, baseline, tuple(rows))


def _share(temperature: float, samples: Samples, name: str) -> Share:
    unmetered = f"{name}, meter off"
    own = ratio(samples, name, unmetered)
    return Share(temperature, name, unmetered, Spread(1 - own.median, 1 - own.high, 1 - own.low, own.count))


if __name__ == "__main__":
    sys.exit(main())
