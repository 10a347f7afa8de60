"""Checks a RunConfig once, at the border: every error is one sentence with the field, the value and the allowed range."""

from __future__ import annotations

import math

from mars_core.decoder import input_embedding
from mars_core.models import Pair
from mars_core.rules import PLAIN, RULES, Rule, Siblings
from mars_core.types import DrafterConfig, DraftMode, RunConfig, Sampling

LONGEST_DRAFT = 64
LARGEST_SEED = 2**63 - 1
DRAFTERS = ("model", "eagle3", "ngram", PLAIN)
TREE_RANGES = {"tokens": (1, 256), "depth": (1, 32), "top_k": (1, 64)}


def validate(config: RunConfig, pair: Pair) -> None:
    """Raises ValueError for the first thing that cannot be run. The length of the prompt is checked with its tokens."""
    _sampling(config.sampling)
    _drafter(config.drafter, pair)
    if config.rule.name not in RULES:
        raise ValueError(f"The rule is {config.rule.name!r}; it must be one of {', '.join(RULES)}.")
    RULES[config.rule.name].values(config.rule.parameters)
    _combination(RULES[config.rule.name], config.drafter)
    if not 0 <= config.seed <= LARGEST_SEED:
        raise ValueError(f"seed is {config.seed}; it must be 0 to {LARGEST_SEED}.")
    if any(not stop for stop in config.prompt.stop):
        raise ValueError("A stop string is empty; each needs at least 1 character.")
    _prefix(config.prefix, pair)


def validate_length(config: RunConfig, prompt: int, context: int) -> None:
    """Raises ValueError where a prompt of so many tokens, the given tokens and the new ones do not fit into the context."""
    given = len(config.prefix)
    room = context - prompt - given
    if not 1 <= config.max_new_tokens <= room:
        begun = f" and the given beginning {given}" if given else ""
        alone = "prompt and beginning alone do not" if given else "the prompt alone does not"
        raise ValueError(
            f"max_new_tokens is {config.max_new_tokens}, and the prompt has {prompt} tokens{begun}; "
            + (f"1 to {room} fit into" if room > 0 else f"{alone} fit into")
            + f" the context of {context} tokens."
        )


def _prefix(prefix: tuple[int, ...], pair: Pair) -> None:
    rows = input_embedding(pair.target).num_embeddings
    for position, token in enumerate(prefix):
        place = f"Token {position} of the given beginning"
        if not 0 <= token < rows:
            raise ValueError(f"{place} has id {token}; this target's ids are 0 to {rows - 1}.")
        if token in pair.eos_ids:
            raise ValueError(f"{place}, id {token}, ends the text; nothing can follow it.")


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
    if drafter.kind != PLAIN and drafter.tree is None and not 1 <= drafter.k <= LONGEST_DRAFT:
        raise ValueError(f"K is {drafter.k}; it must be 1 to {LONGEST_DRAFT} (for no draft choose drafter none).")
    missing = {"model": ("draft model", pair.draft is None), "eagle3": ("EAGLE-3 head", pair.head is None)}
    if drafter.kind in missing and missing[drafter.kind][1]:
        others = ", ".join([*(kind for kind, (_, gone) in missing.items() if not gone), "ngram"])
        raise ValueError(
            f"The pair {pair.spec.key} has no {missing[drafter.kind][0]}; choose drafter {others} or none."
        )
    if drafter.mode is DraftMode.SAMPLED and drafter.kind != "model":
        raise ValueError(
            f"Draft mode is sampled and the drafter {drafter.kind}; only a draft model samples its drafts."
        )
    if drafter.tree is None:
        return
    if drafter.kind != "eagle3":
        raise ValueError(f"A draft tree is asked for and the drafter is {drafter.kind}; only eagle3 drafts trees.")
    for name, (low, high) in TREE_RANGES.items():
        value = getattr(drafter.tree, name)
        if not low <= value <= high:
            raise ValueError(f"{name} of the draft tree is {value}; it must be {low} to {high}.")


def _combination(rule: Rule, drafter: DrafterConfig) -> None:
    """Whether the rule is defined for what the drafter does."""
    if (rule.name == PLAIN) is not (drafter.kind == PLAIN):
        raise ValueError(
            f"The rule is {rule.name} and the drafter {drafter.kind}; rule none and drafter none only go with each other."
        )
    if rule.name == PLAIN:
        return
    if drafter.mode not in rule.modes:
        raise ValueError(
            f"Draft mode is {drafter.mode}; rule {rule.name} is defined for {' and '.join(rule.modes)} drafts only."
        )
    if drafter.tree is not None and drafter.tree.top_k > 1 and rule.siblings is Siblings.REFUSED:
        raise ValueError(f"A draft tree is asked for; rule {rule.name} is defined for chains only.")
    if rule.needs_law and drafter.kind == "ngram":
        raise ValueError(f"Rule {rule.name} needs the drafter's probabilities; drafter ngram has none.")
