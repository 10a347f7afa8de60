"""``python -m bench.exact``: in a dtype that rounds, how often is strict's text not that of the target alone?

The held-out problems and story requests of the bundled pair at temperatures 0 and 1; every drafter against ``none``, and a run that is
continued in its middle with its own tokens against itself. Writes what it has after every prompt, so that it may be stopped.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from transformers.utils import logging as transformers_logging

from bench.machine import RESULTS, machine, stem
from bench.methods import lossless
from mars_core.demo.corpus import held_out, held_out_requests
from mars_core.models import CATALOG, ModelPool, Pair
from mars_core.session import Session, run_config
from mars_core.types import DrafterConfig, PromptConfig, RunConfig, Sampling, Trace, TreeShape

NONE = "none"
DRAFTERS: Mapping[str, DrafterConfig] = {
    NONE: DrafterConfig("none"),
    "draft model, K = 5": DrafterConfig("model", k=5),
    "EAGLE-3 chain, K = 5": DrafterConfig("eagle3", k=5),
    "n-grams, K = 5": DrafterConfig("ngram", k=5),
    "draft model, K = 20": DrafterConfig("model", k=20),
    "EAGLE-3 tree, 12 nodes": DrafterConfig("eagle3", tree=TreeShape(12, 6, 2)),
}
CONTINUED = "continued with its own tokens (draft model)"


def measured(pair: Pair, prompts: Sequence[str], tokens: int, out: Path, facts: Mapping[str, Any]) -> None:
    """Writes the counts of differing texts after every prompt."""
    differing, seconds, runs = Counter[str](), defaultdict[str, float](float), 0
    for number, text in enumerate(prompts):
        for temperature in (0.0, 1.0):
            traces = {}
            for name, drafter in DRAFTERS.items():
                started = time.process_time()
                traces[name] = _trace(pair, _config(pair, text, drafter, temperature, tokens, number))
                seconds[name] += time.process_time() - started
                differing[name] += traces[name].token_ids != traces[NONE].token_ids
            differing[CONTINUED] += not _continues(pair, traces["draft model, K = 5"])
            runs += 1
        _write(out, {**facts, "prompts": number + 1, "runs": runs, "differing": differing, "cpu_s": seconds})


def _config(pair: Pair, text: str, drafter: DrafterConfig, temperature: float, tokens: int, seed: int) -> RunConfig:
    return run_config(
        pair, prompt=PromptConfig(text), rule=lossless(drafter), drafter=drafter,
        sampling=Sampling(temperature), max_new_tokens=tokens, seed=seed,
    )  # fmt: skip


def _trace(pair: Pair, config: RunConfig) -> Trace:
    run = Session(pair).start(config)
    list(run)
    return run.trace()


def _continues(pair: Pair, trace: Trace) -> bool:
    """Whether the rest of a text is written again after its first half."""
    ids = trace.token_ids
    half = len(ids) // 2
    again = replace(trace.config, prefix=ids[:half], max_new_tokens=trace.config.max_new_tokens - half)
    return _trace(pair, again).token_ids == ids[half:]


def _write(out: Path, document: Mapping[str, Any]) -> None:
    out.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    facts = [f"- {name}: {value}" for name, value in document.items() if name not in ("differing", "cpu_s")]
    rows = [
        f"| {name} | {document['differing'][name]} | {document['cpu_s'].get(name, 0) / document['runs']:.2f} |"
        for name in document["differing"]
    ]
    head = ["| strict with | texts that are not those of `none` | processor s a run |", "|---|---:|---:|"]
    text = "\n".join(["# Strict against the target alone", "", *facts, "", *head, *rows]) + "\n"
    out.with_suffix(".md").write_text(text, encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.exact", description=__doc__)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--exact", default="on", choices=("on", "off"))
    parser.add_argument("--problems", type=int, default=300)
    parser.add_argument("--stories", type=int, default=100)
    parser.add_argument("--max-new-tokens", type=int, default=160)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    transformers_logging.set_verbosity_error()
    torch.set_num_threads(options.threads)
    pair = ModelPool(device="cpu", dtype=options.dtype, exact=options.exact).get(CATALOG[0])
    stories, problems = held_out_requests(options.stories), [item.question for item in held_out()[: options.problems]]
    mixed = [text for pair_ in zip(problems, stories, strict=False) for text in pair_]
    prompts = [*mixed, *problems[len(stories) :], *stories[len(problems) :]]
    given = sys.argv[1:] if arguments is None else list(arguments)
    facts = {
        "command": " ".join(["python -m bench.exact", *given]),
        **machine(pair.device),
        "dtype": options.dtype,
        "exact": options.exact,
    }
    measured(pair, prompts, options.max_new_tokens, stem(options.out, f"exact-{options.exact}", "cpu"), facts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
