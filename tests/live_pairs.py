"""Pairs of models in memory for tests: a random target, and a draft that is the target a little
disturbed. And runs of them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerBase

from mars_core.decoder import prepare
from mars_core.eagle3.cache import prepare_head
from mars_core.models import Pair, custom_pair
from mars_core.models.checks.exactness import find_shapes, real_text
from mars_core.models.idle import Engines
from mars_core.runs.run import Run
from mars_core.session import Session, run_config
from mars_core.types import (
    DrafterConfig,
    DraftMode,
    ModelRef,
    PromptConfig,
    RuleConfig,
    RunConfig,
    Sampling,
    Trace,
    TreeShape,
)
from tests import eagle_heads
from tests.checkpoints import EOS, tiny_checkpoint, tiny_model, tiny_tokenizer


def disturbed(model: PreTrainedModel, strength: float, seed: int = 0) -> PreTrainedModel:
    """A copy with noise on every weight: a draft that is often right, and often not."""
    draft = copy.deepcopy(model)
    source = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in draft.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=source) * strength)
    return draft


def pair_of(
    target: PreTrainedModel,
    draft: PreTrainedModel | None,
    tokenizer: PreTrainedTokenizerBase,
    eos: frozenset[int],
    *,
    fast: bool = True,
) -> Pair:
    """A Pair around models that are already in memory, prepared in place as they are when they are
    loaded, unless not ``fast``."""
    for model in (target, draft):
        if fast and model is not None:
            prepare(model)
    ref = ModelRef("tests/target", "0" * 40)
    draft_ref = ModelRef("tests/draft", "1" * 40) if draft is not None else None
    return Pair(
        spec=custom_pair(ref, draft_ref),
        target=target,
        draft=draft,
        tokenizer=tokenizer,
        device=torch.device("cpu"),
        dtype=torch.float32,
        target_ref=ref,
        draft_ref=draft_ref,
        context=int(target.config.max_position_embeddings),
        eos_ids=eos,
        vocabulary=int(target.config.vocab_size),
    )


def random_pair(
    kind: str = "llama", noise: float = 0.01, eos: frozenset[int] = frozenset((EOS,)), seed: int = 0
) -> Pair:
    """A random pair of the architecture ``kind``, built in memory."""
    target = tiny_model(kind, seed=seed)
    return pair_of(target, disturbed(target, noise, seed), tiny_tokenizer(), eos)


def loaded_pair(kind: str, folder: Path, *, fast: bool = True) -> Pair:
    """As ``random_pair``, the target saved to ``folder`` and read back."""
    target = (
        AutoModelForCausalLM.from_pretrained(tiny_checkpoint(kind, folder))
        .eval()
        .requires_grad_(False)
    )
    return pair_of(target, disturbed(target, 0.01), tiny_tokenizer(), frozenset(), fast=fast)


def headed(pair: Pair) -> Pair:
    """The pair with a random EAGLE-3 head, in the target's dtype."""
    head = eagle_heads.random_head(
        eagle_heads.tiny_config(pair.target.config, feature_layers=(0, 1, 1)), pair.target
    )
    prepare_head(head.to(pair.dtype))
    return replace(pair, head=head, head_ref=ModelRef("tests/head", "2" * 40))


def searched(pair: Pair) -> Pair:
    """The pair with the shapes of passes that are found when it is loaded."""
    return replace(
        pair,
        engines=Engines(),
        **find_shapes(pair.target, real_text(pair.tokenizer, pair.vocabulary))._asdict(),
    )


GREEDY = Sampling(0.0)
DRAFTS = {
    "greedy chain": DrafterConfig("model", k=4, mode=DraftMode.GREEDY),
    "coupled chain": DrafterConfig("model", k=4),
    "sampled chain": DrafterConfig("model", k=4, mode=DraftMode.SAMPLED),
    "n-grams": DrafterConfig("ngram", k=4),
    "head": DrafterConfig("eagle3", k=4),
    "tree": DrafterConfig("eagle3", tree=TreeShape(12, 4, 3)),
}
EVERY_DRAFT = {
    "none": DrafterConfig("none"),
    **DRAFTS,
    "one": DrafterConfig("model", k=1),
    "suffix": DrafterConfig("suffix", k=5),
    "greedy tree": DrafterConfig("eagle3", tree=TreeShape(9, 3, 3), mode=DraftMode.GREEDY),
    "small tree": DrafterConfig("eagle3", tree=TreeShape(2, 5, 2)),
}


@cache
def ready_pair() -> Pair:
    """A random pair with a head, whose text does not end by itself."""
    return searched(headed(random_pair(noise=0.05, eos=frozenset())))


def config_for(
    pair: Pair,
    drafter: DrafterConfig,
    sampling: Sampling = GREEDY,
    *,
    prompt: PromptConfig | str = "once",
    rule: str = "strict",
    new: int = 24,
    seed: int = 0,
    prefix: tuple[int, ...] = (),
    **parameters: float,
) -> RunConfig:
    """The rule is none where the drafter is; ``parameters`` are the rule's."""
    return run_config(
        pair,
        prompt=PromptConfig(prompt) if isinstance(prompt, str) else prompt,
        rule=RuleConfig("none") if drafter.kind == "none" else RuleConfig(rule, parameters),
        drafter=drafter,
        sampling=sampling,
        max_new_tokens=new,
        seed=seed,
        prefix=prefix,
    )


def finished(run: Run) -> Trace:
    """What a run has written at its end."""
    assert list(run)
    return run.trace()


def decoded(pair: Pair, config: RunConfig) -> Trace:
    return finished(Session(pair).start(config))


def traced(
    pair: Pair, drafter: DrafterConfig, sampling: Sampling = GREEDY, **options: Any
) -> Trace:
    """A run with the options of ``config_for``."""
    return decoded(pair, config_for(pair, drafter, sampling, **options))


def generated(pair: Pair, ids: Sequence[int], new: int, **options: Any) -> tuple[int, ...]:
    """What ``generate`` of transformers writes at temperature 0."""
    read = torch.tensor([ids])
    usual: Any = {"do_sample": False, "max_new_tokens": new, "pad_token_id": 0}
    with torch.inference_mode():
        written = pair.target.generate(
            read, attention_mask=torch.ones_like(read), **usual | options
        )
    return tuple(written[0, len(ids) :].tolist())
