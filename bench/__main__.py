"""``python -m bench``: our decoding beside transformers' on the bundled pair, in one interleaved run.

Prints the report and writes it to bench/results/ beside the JSON that it follows from. Ends with 1 if outputs differ that must be equal.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from transformers.utils import logging as transformers_logging

from bench.machine import RESULTS, machine, stem
from bench.measure import Samples, Spread, interleaved, median_speed, overall_tau, paired, same_outputs, spread
from bench.methods import TREE, Setting, methods
from bench.prompts import mixed_prompts
from bench.report import FORMAT, Document, Equality, Goal, Row, Share, Table, dump, markdown
from mars_core.models import CATALOG, ModelPool
from mars_core.rules import RULES
from mars_core.types import PromptConfig

# At temperature 0: measure, method, baseline, goal, whether it binds. The two below the tree's speed say where that comes from.
GOALS = (
    ("speed", "none", "generate", 1.15, True),
    ("speed", "strict", "assisted", 1.6, True),
    ("speed", "strict", "none", 2.0, True),
    ("tau", "eagle3 tree", "strict", 1.25, True),
    ("speed", "eagle3 tree", "eagle3 chain", 1.0, False),
    ("tau", "eagle3 tree", "eagle3 chain", None, False),
    ("pace", "eagle3 tree", "eagle3 chain", None, False),
)
SHARE_GOAL = 0.03  # of the wall time, for all that is measured of every token
METERED = ("strict", "mars", "eagle3 tree")  # each beside itself with the meter off
EQUAL = (
    ("none", "generate"), ("assisted", "generate"),
    ("strict", "none"), ("eagle3 chain", "none"), ("eagle3 tree", "none"), ("ngram", "none"),
)  # must give the same tokens  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    transformers_logging.set_verbosity_error()
    pair = ModelPool().get(next(spec for spec in CATALOG if spec.key == "bundled"))
    prompts = mixed_prompts(options.prompts)
    samples = {
        temperature: interleaved(
            methods(pair, Setting(temperature, options.k, options.max_new_tokens)), prompts, options.rounds
        )
        for temperature in (0.0, 1.0)
    }
    found = document(samples, options, prompts, pair.device)
    sys.stdout.write(markdown(found))
    path = stem(options.out, "bundled", pair.device.type)
    path.with_suffix(".json").write_text(dump(found), encoding="utf-8")
    path.with_suffix(".md").write_text(markdown(found), encoding="utf-8")
    return 0 if all(each.same == each.count for each in found.equalities) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--prompts", type=_positive, default=12, help="half of them problems, half stories")
    parser.add_argument("--rounds", type=_positive, default=3)
    parser.add_argument("--k", type=_positive, default=5)
    parser.add_argument("--max-new-tokens", type=_positive, default=128)
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser


def _positive(text: str) -> int:
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}; it must be 1 or more")
    return int(text)


def document(
    samples: Mapping[float, Samples], options: argparse.Namespace, prompts: Sequence[PromptConfig], device: torch.device
) -> Document:
    """What is stored of the run."""
    first = samples[0.0]
    return Document(
        format=FORMAT,
        command=f"python -m bench --prompts {options.prompts} --rounds {options.rounds} --k {options.k}"
        f" --max-new-tokens {options.max_new_tokens}",
        machine=machine(device),
        options=_work(options),
        prompts=tuple(prompt.text for prompt in prompts),
        tables=tuple(_table(temperature, each) for temperature, each in samples.items()),
        goals=tuple(
            Goal(measure, method, baseline, goal, binding, spread(paired(first, method, baseline, measure)))
            for measure, method, baseline, goal, binding in GOALS
        ),
        share_goal=SHARE_GOAL,
        shares=tuple(_share(temperature, each, name) for temperature, each in samples.items() for name in METERED),
        equalities=tuple(
            Equality(method, baseline, *same_outputs(first, method, baseline)) for method, baseline in EQUAL
        ),
    )


def _work(options: argparse.Namespace) -> dict[str, str]:
    return {
        **{name: str(getattr(options, name)) for name in ("prompts", "rounds", "k", "max_new_tokens")},
        "tree": f"{TREE.tokens} nodes, depth {TREE.depth}, top-k {TREE.top_k}",
        "theta": f"{RULES['mars'].values({})['theta']:g}",
    }


def _table(temperature: float, samples: Samples) -> Table:
    baseline = next(iter(samples))
    rows = (
        Row(
            name=name,
            tokens_per_s=median_speed(own),
            speed=spread(paired(samples, name, baseline)),
            tau=overall_tau(own),
            tokens=sum(sample.tokens for sample in own),
            samples=tuple(own),
        )
        for name, own in samples.items()
    )
    return Table(temperature, baseline, tuple(rows))


def _share(temperature: float, samples: Samples, name: str) -> Share:
    unmetered = f"{name}, meter off"
    ratio = spread(paired(samples, name, unmetered))
    return Share(temperature, name, unmetered, Spread(1 - ratio.median, 1 - ratio.high, 1 - ratio.low, ratio.count))


if __name__ == "__main__":
    sys.exit(main())
