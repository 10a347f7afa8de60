"""``python -m bench.exact``: how often strict's text differs from the target's in half precision.

The held-out problems and story requests of the bundled pair at temperatures 0 and 1; every drafter against ``none``, and a run that is
continued in its middle with its own tokens against itself. The result is written after every prompt, so that it can be interrupted.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Mapping

import torch

from bench.common.command import measurement
from bench.common.decoding import TREE, Differences, Ours, any_shape, bundled
from bench.common.report import Report, Table
from mars_core.demo.corpus import held_out, held_out_requests
from mars_core.types import DrafterConfig, PromptConfig

DRAFTERS: Mapping[str, DrafterConfig] = {
    "none": DrafterConfig("none"),
    "draft model, K = 5": DrafterConfig("model", k=5),
    "EAGLE-3 chain, K = 5": DrafterConfig("eagle3", k=5),
    "n-grams, K = 5": DrafterConfig("ngram", k=5),
    "draft model, K = 20": DrafterConfig("model", k=20),
    "EAGLE-3 tree, 12 nodes": DrafterConfig("eagle3", tree=TREE),
}
CONTINUED = "draft model, K = 5"


def report(found: Differences, facts: Mapping[str, str]) -> Report:
    rows = [(name, found.strict[name], f"{found.cpu_s[name] / found.texts:.2f}") for name in DRAFTERS]
    continued = (f"{CONTINUED}, continued with its own tokens", found.continued[CONTINUED], None)
    table = Table(("strict with", "texts that differ from `none`", "processor s a run"), [*rows, continued])
    data = {"runs": found.texts, "differing": found.strict, "continued": found.continued, "cpu_s": found.cpu_s}
    notes = [f"prompts: {found.texts // 2}", f"runs: {found.texts}"]
    return Report("Strict against the target alone", notes, tables=[table], data=data, facts=facts)


@measurement(
    "exact-{exact}-{dtype}", problems=300, stories=100, max_new_tokens=160, threads=1, first=(0, 0), dtype="bfloat16", exact=("on", "off")
)  # fmt: skip
def main(options: Namespace) -> Iterator[Report]:
    """``first``: prompts to leave out, to measure in parts."""
    torch.set_num_threads(options.threads)
    pair = bundled(device="cpu", dtype=options.dtype)
    pair = pair if options.exact == "on" else any_shape(pair)
    stories, problems = held_out_requests(options.stories), [item.question for item in held_out()[: options.problems]]
    mixed = [text for both in zip(problems, stories, strict=False) for text in both]
    facts, found = {"dtype": options.dtype, "exact": options.exact}, Differences()
    prompts = [*mixed, *problems[len(stories) :], *stories[len(problems) :]]
    for seed, text in enumerate(prompts[options.first :], start=options.first):
        for temperature in (0.0, 1.0):
            settings = (temperature, options.max_new_tokens)
            methods = {name: Ours(pair, None, drafter, *settings) for name, drafter in DRAFTERS.items()}
            found.add(methods, PromptConfig(text), seed, continued=(CONTINUED,))
        yield report(found, facts)
