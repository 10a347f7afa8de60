"""``python -m bench``: our decoding and transformers' on the bundled pair, in one interleaved run.

Prints the report and writes it to bench/results/ with its JSON data. Exit status 1 if outputs differ that must be equal.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from transformers import AutoModelForCausalLM

from bench.common.command import measurement
from bench.common.decoding import DRAFTERS, TREE, Ours, bundled, mixed_prompts
from bench.common.measure import Method, interleaved
from bench.common.peers import assisted, greedy, prompted
from bench.common.report import Report
from bench.document import FORMAT, METER_OFF, Document, Methods, Row, report
from mars_core.models import Pair
from mars_core.models.source import WEIGHTS_FOLDER as WEIGHTS
from mars_core.rules import RULES
from mars_core.types import DrafterConfig, DraftMode, RuleConfig


def methods(pair: Pair, temperature: float, k: int, max_new_tokens: int) -> Mapping[str, Method]:
    """By name, in the order of the table, its baseline first.

    transformers' methods are included at temperature 0, where all must produce the same tokens; above it also greedy and sampled drafts.
    """

    def ours(rule: str, drafter: DrafterConfig, *, meter: bool = True) -> Method:
        return Ours(pair, RuleConfig(rule), drafter, temperature, max_new_tokens, meter)

    chain = DrafterConfig("model", k=k)
    found = {
        "none": ours("none", DrafterConfig("none")),
        "strict": ours("strict", chain),
        "strict" + METER_OFF: ours("strict", chain, meter=False),
        "mars": ours("mars", chain),
        "mars" + METER_OFF: ours("mars", chain, meter=False),
        "eagle3 chain": ours("strict", DrafterConfig("eagle3", k=k)),
        "eagle3 tree": ours("strict", DRAFTERS["EAGLE-3 tree"]),
        "eagle3 tree" + METER_OFF: ours("strict", DRAFTERS["EAGLE-3 tree"], meter=False),
        "ngram": ours("strict", DrafterConfig("ngram", k=k)),
    }
    if temperature:
        others = (DraftMode.GREEDY, DraftMode.SAMPLED)
        return found | {f"strict, {mode}": ours("strict", replace(chain, mode=mode)) for mode in others}
    load: Any = AutoModelForCausalLM.from_pretrained  # as transformers loads them, unprepared
    target, draft = (load(WEIGHTS / name, dtype=pair.dtype).to(pair.device).eval() for name in ("target", "draft"))
    eos = target.generation_config.eos_token_id
    peers = {"generate": greedy(target, eos), "assisted": assisted(target, draft, k, eos)}
    return {name: prompted(each, pair.tokenizer, max_new_tokens) for name, each in peers.items()} | found


@measurement("bundled", prompts=12, rounds=3, k=5, max_new_tokens=128)
def main(options: Namespace) -> Report:
    pair, prompts = bundled(), mixed_prompts(options.prompts)
    tables = []
    for temperature in (0.0, 1.0):
        samples = interleaved(methods(pair, temperature, options.k, options.max_new_tokens), prompts, options.rounds)
        rows = tuple(Row(name, tuple(own)) for name, own in samples.items())
        tables.append(Methods(temperature, rows[0].name, rows))
    work = {name: str(getattr(options, name)) for name in ("prompts", "rounds", "k", "max_new_tokens")}
    work |= {"tree": f"{TREE.tokens} nodes, depth {TREE.depth}, top-k {TREE.top_k}"}
    work |= {"theta": f"{RULES['mars'].values({})['theta']:g}"}
    found = Document(FORMAT, {}, work, tuple(prompt.text for prompt in prompts), tuple(tables))
    unequal = any(same < count for same, count in found.equalities.values())
    return replace(report(found), device=pair.device, failed=unequal)
