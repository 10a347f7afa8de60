"""Validates a RunConfig: every error is one sentence with the field, the value and the allowed
range."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mars_core.decoder import input_embedding
from mars_core.drafting import drafter_kind, offered
from mars_core.engine.build import protected, thinking_span
from mars_core.models import Pair
from mars_core.models.classifier import Reads
from mars_core.processors import word_ids
from mars_core.rules import (
    PLAIN,
    RULES,
    Reach,
    Rule,
    Siblings,
    expressions,
    shift_kind,
)
from mars_core.rules.expression import SCORE
from mars_core.sampling import LEAST_TEMPERATURE
from mars_core.types import (
    MAX_DRAFT,
    PROCESSORS,
    SPECIAL,
    WITH_PROBABILITIES,
    DrafterConfig,
    Processors,
    RunConfig,
    Sampling,
    ShiftKind,
    number_text,
)

LARGEST_SEED = 2**63 - 1
LEAST_BIAS = -1e30  # but for -inf: 64 of them are finite in float32
TREE_RANGES = {"tokens": (1, 256), "depth": (1, 32), "top_k": (1, 64)}


def validate(config: RunConfig, pair: Pair) -> None:
    """Raises ValueError for the first invalid field. ``validate_length`` checks the length of the
    prompt."""
    _sampling(config.sampling)
    rows = input_embedding(pair.target).num_embeddings
    _processors(config.sampling.processors, pair, rows)
    _protected(config.sampling.processors.protect, pair)
    _drafter(config.drafter, pair)
    _require(
        config.rule.name in RULES,
        f"The rule is {config.rule.name!r}; it must be one of {', '.join(RULES)}.",
    )
    rule = RULES[config.rule.name]
    rule.values(config.rule.parameters)
    _combination(rule, config.drafter)
    _expressions(config, pair)
    _classifier(config, pair)
    _require(
        0 <= config.seed <= LARGEST_SEED, f"seed is {config.seed}; it must be 0 to {LARGEST_SEED}."
    )
    _require(all(config.prompt.stop), "A stop string is empty; each needs at least 1 character.")
    for position, token in enumerate(config.prefix):
        token_name = f"Token {position} of the given beginning"
        _require(
            0 <= token < rows,
            f"{token_name} has id {token}; this target's ids are 0 to {rows - 1}.",
        )
        _require(
            token not in pair.eos_ids,
            f"{token_name}, id {token}, ends the text; nothing can follow it.",
        )


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise ValueError(message)


def validate_length(config: RunConfig, prompt: int, context: int, model: str) -> None:
    """Raises ValueError if ``prompt`` tokens, the prefix and the new tokens do not fit into the
    ``context`` of ``model``."""
    prefix = len(config.prefix)
    available = context - prompt - prefix
    begun = f" and the given beginning {prefix}" if prefix else ""
    alone = "prompt and beginning alone do not" if prefix else "the prompt alone does not"
    _require(
        1 <= config.max_new_tokens <= available,
        f"max_new_tokens is {config.max_new_tokens}, and the prompt has {prompt} tokens{begun}; "
        + (f"1 to {available} fit into" if available > 0 else f"{alone} fit into")
        + f" the context of {model}, {context} tokens.",
    )


def _sampling(sampling: Sampling) -> None:
    temperature, top_k, top_p = sampling.temperature, sampling.top_k, sampling.top_p
    fits = temperature == 0 or LEAST_TEMPERATURE <= temperature <= 100
    _require(
        fits,
        f"temperature is {number_text(temperature)}; it must be 0 (greedy) or "
        f"{LEAST_TEMPERATURE:g} to 100.",
    )
    _require(top_k >= 0, f"top_k is {top_k}; it must be 0 (off) or more.")
    _require(
        0 < top_p <= 1,
        f"top_p is {number_text(top_p)}; it must be above 0 and at most 1 (off).",
    )


def _processors(processors: Processors, pair: Pair, rows: int) -> None:
    for name, (low, high, _) in PROCESSORS.items():
        value = getattr(processors, name)
        _require(
            low <= value <= high, f"{name} is {number_text(value)}; it must be {low:g} to {high:g}."
        )
    _require(len(processors.logit_bias) <= 64, "More than 64 words have a bias; 64 are the most.")
    for word, bias in processors.logit_bias:
        _require(
            bias == -math.inf or LEAST_BIAS <= bias <= 1000,
            f"The bias of {word!r} is {number_text(bias)}; it must be {LEAST_BIAS:g} to 1000, or "
            "-inf, which bans the word.",
        )
        ids = word_ids(pair.tokenizer, word)
        _require(
            max(ids, default=rows) < rows,
            f"The ids of the word {word!r} are {list(ids)}; there must be some, each 0 to "
            f"{rows - 1}.",
        )


def _protected(protect: Sequence[str], pair: Pair) -> None:
    _require(len(protect) <= 16, f"protect has {len(protect)} words; 16 are the most.")
    for word in protect:
        _require(
            len(word) <= 100,
            f"A word of protect has {len(word)} characters; 100 are the most.",
        )
        _require(
            word == SPECIAL or bool(protected(pair, [word])),
            f"protect has {word!r}, which is no token of this target; it takes special, digits, "
            "quotes, the text of a token (* and ? stand for any text and any character), or ids "
            "such as [42].",
        )


def _drafter(drafter: DrafterConfig, pair: Pair) -> None:
    kind, tree = drafter_kind(drafter.kind), drafter.tree
    k_fits = not kind.chains or tree is not None or 1 <= drafter.k <= MAX_DRAFT
    _require(
        k_fits, f"K is {drafter.k}; it must be 1 to {MAX_DRAFT} (for no drafts choose rule none)."
    )
    *others, last = offered(pair)
    _require(
        not kind.part or kind.model(pair) is not None,
        f"The pair {pair.spec.key} has no {kind.title}; choose drafter {', '.join(others)} or "
        f"{last}.",
    )
    _require(
        drafter.mode in kind.modes,
        f"Draft mode is {drafter.mode}; drafter {kind.name} takes {' or '.join(kind.modes)}.",
    )
    if tree is not None:
        _require(kind.trees, f"A draft tree is set; drafter {kind.name} drafts chains only.")
        for field, (low, high) in TREE_RANGES.items():
            value = getattr(tree, field)
            _require(
                low <= value <= high,
                f"{field} of the draft tree is {value}; it must be {low} to {high}.",
            )


def _expressions(config: RunConfig, pair: Pair) -> None:
    """Raises ValueError if a parameter reads what the run does not have."""
    thinking_span(pair, config.rule.parameters)
    kind = shift_kind(config.rule.name, config.drafter, config.sampling.temperature)
    for name, expression in expressions(config.rule.parameters).items():
        _require(
            kind is not ShiftKind.MISSING or "tv" not in expression.names,
            f"{name} reads tv, which is missing on these drafts under rule {config.rule.name}; "
            "choose chains, or draft mode greedy.",
        )


def _classifier(config: RunConfig, pair: Pair) -> None:
    """Raises ValueError if the rule or a parameter reads a classifier that the pair does not
    have."""
    readers = []
    if RULES[config.rule.name].reach is Reach.DRAFTED:
        readers.append((Reads.TOKEN, f"Rule {config.rule.name}"))
    for name, expression in expressions(config.rule.parameters).items():
        if SCORE in expression.names:
            readers.append((Reads.POSITION, name))
    present = pair.classifier.reads if pair.classifier else "none"
    for reads, reader in readers:
        _require(
            present == reads,
            f"{reader} reads the score of a classifier of the {reads}, and the pair "
            f"{pair.spec.key} has {present}; name one (--classifier on the command line), or "
            "choose something else.",
        )


def _combination(rule: Rule, drafter: DrafterConfig) -> None:
    """Raises ValueError if the rule is not defined for the drafter."""
    _require(
        (rule.name == PLAIN) is (drafter.kind == PLAIN),
        f"The rule is {rule.name} and the drafter {drafter.kind}; rule none and drafter none can "
        "only be used together.",
    )
    if rule.name == PLAIN:
        return
    mode, modes = drafter.mode, " and ".join(rule.modes)
    _require(
        mode in rule.modes,
        f"Draft mode is {mode}; rule {rule.name} is defined for {modes} drafts only.",
    )
    chain = drafter.tree is None or drafter.tree.top_k == 1 or rule.siblings is not Siblings.REFUSED
    _require(chain, f"A draft tree is set; rule {rule.name} is defined for chains only.")
    _require(
        not rule.needs_distribution or drafter.kind in WITH_PROBABILITIES,
        f"Rule {rule.name} needs the drafter's probabilities; drafter {drafter.kind} has none.",
    )
