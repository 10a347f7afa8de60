"""``python -m bench.exact``: how often strict's text differs from the target's because passes have
other shapes.

The held-out problems and story requests of the bundled pair, or the prompts of ``mars check`` for
another ``--target`` with n-grams, at temperatures 0 and 1; every drafter against ``none``, and a
run that is continued in its middle with its own tokens against itself. Then trees around the
target's own text: how often a node's logits are not those of ``none``. The result is written after
every prompt.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import torch

from bench.common.command import measurement
from bench.common.decoding import TREE, Differences, Ours, any_shape, bundled
from bench.common.report import Report, Table
from mars_core.decoder import CacheSize, open_cache
from mars_core.demo.corpus import held_out, held_out_requests
from mars_core.models import ModelPool, Pair, custom_pair
from mars_core.models.catalog import GENERAL_PROMPTS
from mars_core.session import Session
from mars_core.types import DrafterConfig, PromptConfig
from mars_core.verification import ancestors

DRAFTERS: Mapping[str, DrafterConfig] = {
    "none": DrafterConfig("none"),
    "draft model, K = 5": DrafterConfig("model", k=5),
    "EAGLE-3 chain, K = 5": DrafterConfig("eagle3", k=5),
    "n-grams, K = 5": DrafterConfig("ngram", k=5),
    "draft model, K = 20": DrafterConfig("model", k=20),
    "n-grams, K = 17": DrafterConfig("ngram", k=17),
    "EAGLE-3 tree, 12 nodes": DrafterConfig("eagle3", tree=TREE),
}
CONTINUED = "n-grams, K = 5"
PARENTS = (0, 0, 0, 2, 2, 4, 4, 1, 6, 6, 9, 9)  # of a tree of 12 nodes
PATH = (0, 2, 4, 6, 9)  # its nodes with the target's own tokens
APART = 8  # tokens between the roots of two trees


@dataclass(slots=True)
class Nodes:
    """Nodes of trees whose logits are not those of ``none``, with the largest difference;
    ``changed``: those with another best token."""

    read: int = 0
    differ: int = 0
    changed: int = 0
    largest: float = 0.0


@torch.inference_mode()
def read_trees(pair: Pair, prompt: Sequence[int], text: Sequence[int], nodes: Nodes) -> None:
    """Trees along ``text``, the target's own continuation of ``prompt``; nodes beside the path have
    random tokens."""
    ids, begun, parents = torch.tensor([*prompt, *text]), len(prompt) - 1, torch.tensor(PARENTS)
    depths = [0]
    for parent in PARENTS:
        depths.append(depths[parent] + 1)
    cache = open_cache(pair.target, CacheSize(len(ids) + len(depths), len(depths), pair.shapes))
    cache.read(ids[:begun])
    own = torch.cat([cache.forward(ids[at : at + 1], at) for at in range(begun, len(ids))])
    for root in range(begun, len(ids) - len(PATH), APART):
        tree = torch.randint(
            pair.vocabulary, (len(depths),), generator=torch.Generator().manual_seed(root)
        )
        tree[list(PATH)] = ids[root : root + len(PATH)]
        found = cache.forward_tree(
            tree, root, torch.tensor(depths), ancestors(parents, max(depths))
        )[list(PATH)]
        wanted = own[root - begun :][: len(PATH)]
        nodes.read += len(PATH) - 1  # the root stands in a chain
        nodes.differ += int((found != wanted).any(-1).sum())
        nodes.changed += int((found.argmax(-1) != wanted.argmax(-1)).sum())
        nodes.largest = max(nodes.largest, float((found - wanted).abs().max()))
        cache.read(ids[root : root + max(APART, len(PATH))], root)


def report(found: Differences, nodes: Nodes, facts: Mapping[str, str]) -> Report:
    rows = [
        (name, found.strict[name], f"{found.cpu_s[name] / found.texts:.2f}") for name in found.cpu_s
    ]
    continued = (f"{CONTINUED}, continued with its own tokens", found.continued[CONTINUED], None)
    table = Table(
        ("strict with", "texts that differ from `none`", "processor s a run"), [*rows, continued]
    )
    trees = Table(
        (
            "nodes of trees around the own text",
            "other logits than in `none`",
            "largest difference",
            "another best token",
        ),
        [(nodes.read, nodes.differ, f"{nodes.largest:.2g}", nodes.changed)],
    )
    data = {
        "runs": found.texts,
        "differing": found.strict,
        "continued": found.continued,
        "cpu_s": found.cpu_s,
        "nodes": asdict(nodes),
    }
    notes = [f"prompts: {found.texts // 2}", f"runs: {found.texts}"]
    return Report(
        "Strict against the target alone", notes, tables=[table, trees], data=data, facts=facts
    )


@measurement(
    "exact-{model}-{exact}-{dtype}",
    problems=300,
    stories=100,
    max_new_tokens=160,
    threads=1,
    first=(0, 0),
    dtype="bfloat16",
    exact=("on", "off"),
    model="bundled",
    target="",
)
def main(options: Namespace) -> Iterator[Report]:
    """``first``: prompts to leave out, to measure in parts. ``model``: the name of ``target`` in
    the result."""
    torch.set_num_threads(options.threads)
    pair = bundled(device="cpu", dtype=options.dtype)
    if options.target:
        pair = ModelPool(device="cpu", dtype=options.dtype).get(custom_pair(options.target))
    pair = pair if options.exact == "on" else any_shape(pair)
    drafters = {
        name: each
        for name, each in DRAFTERS.items()
        if not options.target or each.kind in ("none", "ngram")
    }
    stories, problems = (
        held_out_requests(options.stories),
        [item.question for item in held_out()[: options.problems]],
    )
    mixed = [text for both in zip(problems, stories, strict=False) for text in both]
    facts = {
        "dtype": options.dtype,
        "exact": pair.inexact or str(pair.shapes),
        "model": options.model,
    }
    found, nodes = Differences(), Nodes()
    prompts = [*mixed, *problems[len(stories) :], *stories[len(problems) :]]
    prompts = list(GENERAL_PROMPTS) if options.target else prompts
    for seed, text in enumerate(prompts[options.first :], start=options.first):
        for temperature in (0.0, 1.0):
            settings = (temperature, options.max_new_tokens)
            methods = {
                name: Ours(pair, None, drafter, *settings) for name, drafter in drafters.items()
            }
            found.add(methods, PromptConfig(text), seed, continued=(CONTINUED,))
            prompt = (
                Session(pair).check(methods["none"].config(PromptConfig(text), seed)).prompt_ids
            )
            read_trees(pair, prompt, methods["none"].ids(PromptConfig(text), seed), nodes)
        yield report(found, nodes, facts)
