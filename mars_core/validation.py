"""Checks a RunConfig once, at the border: every error is one sentence with the field, the value and the allowed range."""

from __future__ import annotations

import math

from mars_core.models import Pair
from mars_core.rules import RULES
from mars_core.types import DrafterConfig, DraftMode, RunConfig, Sampling

LONGEST_DRAFT = 64
LARGEST_SEED = 2**63 - 1
DRAFTERS = ("model", "ngram", "none")


def validate(config: RunConfig, pair: Pair) -> None:
    """Raises ValueError for the first thing that cannot be run. The length of the prompt is checked with its tokens."""
    _sampling(config.sampling)
    _drafter(config.drafter, pair)
    if config.rule.name not in RULES:
        raise ValueError(f"The rule is {config.rule.name!r}; it must be one of {', '.join(RULES)}.")
    RULES[config.rule.name].values(config.rule.parameters)
    if config.drafter.kind == "none" and config.rule.name != "strict":
        raise ValueError(f"Rule {config.rule.name} needs a drafter; drafter none goes with rule strict only.")
    if not 0 <= config.seed <= LARGEST_SEED:
        raise ValueError(f"seed is {config.seed}; it must be 0 to {LARGEST_SEED}.")
    if any(not stop for stop in config.prompt.stop):
        raise ValueError("A stop string is empty; each needs at least 1 character.")


def _sampling(sampling: Sampling) -> None:
    if not (math.isfinite(sampling.temperature) and 0 <= sampling.temperature <= 100):
        raise ValueError(f"temperature is {sampling.temperature:g}; it must be 0 (greedy) to 100.")
    if sampling.top_k < 0:
        raise ValueError(f"top_k is {sampling.top_k}; it must be 0 (off) or more.")
    if not 0 < sampling.top_p <= 1:
        raise ValueError(f"top_p is {sampling.top_p:g}; it must be above 0 and at most 1 (off).")


def _drafter(drafter: DrafterConfig, pair: Pair) -> None:
    if drafter.kind not in DRAFTERS:
        raise ValueError(f"The drafter is {drafter.kind!r}; it must be one of {', '.join(DRAFTERS)}.")
    if drafter.kind != "none" and not 1 <= drafter.k <= LONGEST_DRAFT:
        raise ValueError(f"K is {drafter.k}; it must be 1 to {LONGEST_DRAFT} (for no draft choose drafter none).")
    if drafter.kind == "model" and pair.draft is None:
        raise ValueError(f"The pair {pair.spec.key} has no draft model; choose drafter ngram or none.")
    if drafter.mode is DraftMode.SAMPLED and drafter.kind != "model":
        raise ValueError(
            f"Draft mode is sampled and the drafter {drafter.kind}; only a draft model samples its drafts."
        )
