"""The ways of decoding that are compared: transformers' own two, and ours. Each takes a prompt and returns new ids and steps.

The peers run on models of their own, as transformers loads them: ours are prepared by ``mars_core.models``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from mars_core.models import Pair
from mars_core.models.source import WEIGHTS_FOLDER as WEIGHTS
from mars_core.session import Session, run_config
from mars_core.types import DrafterConfig, DraftMode, PromptConfig, RuleConfig, Sampling, TreeShape

TREE = TreeShape(12, 6, 2)


@dataclass(frozen=True, slots=True)
class Decoded:
    """What one call gave. ``steps`` is 0 where a peer does not say."""

    ids: tuple[int, ...]
    steps: int


@dataclass(frozen=True, slots=True)
class Setting:
    """What all methods share in one table."""

    temperature: float
    k: int
    max_new_tokens: int


Method = Callable[[PromptConfig, int], Decoded]


def lossless(drafter: DrafterConfig) -> RuleConfig:
    """The rule under which a drafter leaves the text the target's own."""
    return RuleConfig("none" if drafter.kind == "none" else "strict")


def methods(pair: Pair, setting: Setting) -> Mapping[str, Method]:
    """By name, in the order of the table, its baseline first.

    The peers take part at temperature 0, where all must give the same tokens; above it a draft may be sampled too.
    """
    chain = DrafterConfig("model", k=setting.k)
    tree = DrafterConfig("eagle3", tree=TREE)
    ours = {
        "none": _ours(pair, setting, "none", DrafterConfig("none")),
        "strict": _ours(pair, setting, "strict", chain),
        "strict, meter off": _ours(pair, setting, "strict", chain, meter=False),
        "mars": _ours(pair, setting, "mars", chain),
        "mars, meter off": _ours(pair, setting, "mars", chain, meter=False),
        "eagle3 chain": _ours(pair, setting, "strict", DrafterConfig("eagle3", k=setting.k)),
        "eagle3 tree": _ours(pair, setting, "strict", tree),
        "eagle3 tree, meter off": _ours(pair, setting, "strict", tree, meter=False),
        "ngram": _ours(pair, setting, "strict", DrafterConfig("ngram", k=setting.k)),
    }
    if setting.temperature:
        sampled = DrafterConfig("model", k=setting.k, mode=DraftMode.SAMPLED)
        return {**ours, "strict, sampled": _ours(pair, setting, "strict", sampled)}
    return {
        "generate": _generate(pair, setting, assisted=False),
        "assisted": _generate(pair, setting, assisted=True),
        **ours,
    }


def _ours(pair: Pair, setting: Setting, rule: str, drafter: DrafterConfig, *, meter: bool = True) -> Method:
    session = Session(pair)

    def decode(prompt: PromptConfig, seed: int) -> Decoded:
        config = run_config(
            pair,
            prompt=prompt,
            rule=RuleConfig(rule),
            drafter=drafter,
            sampling=Sampling(setting.temperature),
            max_new_tokens=setting.max_new_tokens,
            seed=seed,
        )
        run = session.start(config, meter=meter)
        steps = list(run)
        return Decoded(tuple(token.id for step in steps for token in step.emitted), len(steps))

    return decode


def _generate(pair: Pair, setting: Setting, *, assisted: bool) -> Method:
    """transformers' greedy ``generate``; assisted: same draft, K constant, no early stop by confidence."""
    options: dict[str, Any] = {"do_sample": False, "max_new_tokens": setting.max_new_tokens}
    if assisted:
        draft = _pristine("draft", pair)
        assert draft.generation_config is not None
        draft.generation_config.num_assistant_tokens = setting.k
        draft.generation_config.num_assistant_tokens_schedule = "constant"
        draft.generation_config.assistant_confidence_threshold = 0.0
        options["assistant_model"] = draft
    target: Any = _pristine("target", pair)

    def decode(prompt: PromptConfig, _seed: int) -> Decoded:
        messages = [{"role": "user", "content": prompt.text}]
        encoded: Any = pair.tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_dict=True, return_tensors="pt"
        )
        ids = encoded["input_ids"].to(pair.device)
        with torch.inference_mode():
            output = target.generate(ids, attention_mask=torch.ones_like(ids), **options)
        return Decoded(tuple(output[0, ids.shape[1] :].tolist()), 0)

    return decode


def _pristine(name: str, pair: Pair) -> PreTrainedModel:
    loaded: Any = AutoModelForCausalLM.from_pretrained(WEIGHTS / name, dtype=pair.dtype)
    model: PreTrainedModel = loaded.to(pair.device).eval()
    return model
