"""``python -m bench.telemetry``: what measuring every token costs, in processor time, over many interleaved pairs of runs."""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median, quantiles

import torch
from transformers.utils import logging as transformers_logging

from bench.machine import RESULTS, machine, stem
from bench.methods import TREE
from bench.prompts import mixed_prompts
from mars_core.models import CATALOG, ModelPool, Pair
from mars_core.session import Session, run_config
from mars_core.types import DrafterConfig, PromptConfig, RuleConfig, Sampling

GOAL = 0.03
SETTINGS = {
    "strict, draft model": ("strict", DrafterConfig("model", k=5)),
    "mars, draft model": ("mars", DrafterConfig("model", k=5)),
    "strict, EAGLE-3 tree": ("strict", DrafterConfig("eagle3", tree=TREE)),
}


def cost(
    pair: Pair, rule: str, drafter: DrafterConfig, temperature: float, prompts: Sequence[PromptConfig], pairs: int
) -> list[float]:
    """Of each pair of runs, with the meter on and off: the share of processor time that the meter takes."""
    found = []
    for number in range(pairs):
        config = run_config(
            pair, prompt=prompts[number % len(prompts)], rule=RuleConfig(rule), drafter=drafter, sampling=Sampling(temperature),
            max_new_tokens=96, seed=number,
        )  # fmt: skip
        spent = {}
        for meter in random.sample((True, False), 2):
            run = Session(pair).start(config, meter=meter)
            started = time.process_time()
            for _ in run:
                pass
            spent[meter] = time.process_time() - started
        found.append(1 - spent[False] / spent[True])
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.telemetry", description=__doc__)
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    transformers_logging.set_verbosity_error()
    torch.set_num_threads(options.threads)
    pair, prompts = ModelPool(device="cpu").get(CATALOG[0]), mixed_prompts(12)
    rows = []
    for run in (1, 2):
        for temperature in (0.0, 1.0):
            for name, (rule, drafter) in SETTINGS.items():
                shares = cost(pair, rule, drafter, temperature, prompts, options.pairs)
                low, _, high = quantiles(shares, n=4)
                rows.append(
                    {
                        "run": run,
                        "setting": name,
                        "temperature": temperature,
                        "share": median(shares),
                        "low": low,
                        "high": high,
                    }
                )
    reached = sum(float(row["share"]) <= GOAL for row in rows)
    given = sys.argv[1:] if arguments is None else list(arguments)
    facts = {"command": " ".join(["python -m bench.telemetry", *given]), **machine(pair.device), "pairs": options.pairs}
    document = {**facts, "goal": f"at most {GOAL:.0%}", "reached": f"{reached} of {len(rows)}", "rows": rows}
    table = [
        f"| {r['run']} | {r['setting']} | {r['temperature']:g} | {r['share']:.1%} ({r['low']:.1%} to {r['high']:.1%}) |"
        for r in rows
    ]
    head = ["| run | setting | temperature | share of processor time, median (quartiles) |", "|---:|---|---:|---:|"]
    listed = [f"- {name}: {value}" for name, value in document.items() if name != "rows"]
    text = "\n".join(["# What measuring every token costs", "", *listed, "", *head, *table]) + "\n"
    path = stem(options.out, "telemetry", pair.device.type)
    path.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text(text, encoding="utf-8")
    sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
