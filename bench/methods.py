"""The ways of decoding that are compared: transformers' own two, and ours. Each takes a prompt and returns new ids and steps.

The peers run on models of their own, as transformers loads them: ours are prepared by ``mars_core.models``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from transformers import AutoModelForCausalLM, PreTrainedModel

from bench.measure import Decoded, Method
from bench.peers import assisted, greedy, prompted
from mars_core.models import Pair
from mars_core.models.source import WEIGHTS_FOLDER as WEIGHTS
from mars_core.session import Session, run_config
from mars_core.types import DrafterConfig, DraftMode, PromptConfig, RuleConfig, RunConfig, Sampling, TreeShape

TREE = TreeShape(12, 6, 2)
DRAFTERS: Mapping[str, DrafterConfig] = {
    "none": DrafterConfig("none"),
    "draft model": DrafterConfig("model", k=5),
    "EAGLE-3 chain": DrafterConfig("eagle3", k=5),
    "EAGLE-3 tree": DrafterConfig("eagle3", tree=TREE),
    "n-grams": DrafterConfig("ngram", k=5),
}


@dataclass(frozen=True, slots=True)
class Setting:
    """What all methods share in one table."""

    temperature: float
    k: int
    max_new_tokens: int


class Timed(NamedTuple):
    """One step, but the first of a run, which follows the prefill."""

    drafted: int
    draft_s: float
    verify_s: float
    step_s: float


@dataclass(slots=True)
class Ours:
    """A method of ours, which keeps the times of its steps."""

    pair: Pair
    rule: RuleConfig
    drafter: DrafterConfig
    temperature: float
    tokens: int
    meter: bool = True
    timed: list[Timed] = field(default_factory=list)
    path: str = ""  # how the target's pass runs, as the engine says

    def __call__(self, prompt: PromptConfig, seed: int) -> Decoded:
        run = Session(self.pair).start(self.config(prompt, seed), meter=self.meter)
        self.path = run.config.environment["path"]
        steps = list(run)
        self.timed += [
            Timed(step.drafted, step.draft_s, step.verify_s, step.elapsed_s - before.elapsed_s)
            for before, step in pairwise(steps)
        ]
        return Decoded(tuple(token.id for step in steps for token in step.emitted), len(steps))

    def config(self, prompt: PromptConfig, seed: int) -> RunConfig:
        return run_config(
            self.pair, prompt=prompt, rule=self.rule, drafter=self.drafter, sampling=Sampling(self.temperature),
            max_new_tokens=self.tokens, seed=seed,
        )  # fmt: skip


def lossless(drafter: DrafterConfig) -> RuleConfig:
    """The rule under which a drafter leaves the text the target's own."""
    return RuleConfig("none" if drafter.kind == "none" else "strict")


def methods(pair: Pair, setting: Setting) -> Mapping[str, Method]:
    """By name, in the order of the table, its baseline first.

    The peers take part at temperature 0, where all must give the same tokens; above it a draft may be sampled too.
    """

    def ours(rule: str, drafter: DrafterConfig, *, meter: bool = True) -> Method:
        return Ours(pair, RuleConfig(rule), drafter, setting.temperature, setting.max_new_tokens, meter)

    chain, tree = DrafterConfig("model", k=setting.k), DRAFTERS["EAGLE-3 tree"]
    found = {
        "none": ours("none", DrafterConfig("none")),
        "strict": ours("strict", chain),
        "strict, meter off": ours("strict", chain, meter=False),
        "mars": ours("mars", chain),
        "mars, meter off": ours("mars", chain, meter=False),
        "eagle3 chain": ours("strict", DrafterConfig("eagle3", k=setting.k)),
        "eagle3 tree": ours("strict", tree),
        "eagle3 tree, meter off": ours("strict", tree, meter=False),
        "ngram": ours("strict", DrafterConfig("ngram", k=setting.k)),
    }
    if setting.temperature:
        return {**found, "strict, sampled": ours("strict", DrafterConfig("model", k=setting.k, mode=DraftMode.SAMPLED))}
    target, draft = _pristine("target", pair), _pristine("draft", pair)
    assert target.generation_config is not None
    eos = target.generation_config.eos_token_id
    peers = {"generate": greedy(target, eos), "assisted": assisted(target, draft, setting.k, eos)}
    return {name: prompted(each, pair.tokenizer, setting.max_new_tokens) for name, each in peers.items()} | found


def _pristine(name: str, pair: Pair) -> PreTrainedModel:
    loaded: Any = AutoModelForCausalLM.from_pretrained(WEIGHTS / name, dtype=pair.dtype)
    model: PreTrainedModel = loaded.to(pair.device).eval()
    return model
