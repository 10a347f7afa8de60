"""Validates a RunConfig: every error is one sentence with the field, the value and the allowed
range."""

from __future__ import annotations

from mars_core.decoder import input_embedding
from mars_core.engine.processors import word_ids
from mars_core.models import Pair
from mars_core.rules import PLAIN, RULES, Rule, Siblings
from mars_core.sampling import LEAST_TEMPERATURE
from mars_core.types import PROCESSORS, DrafterConfig, DraftMode, Processors, RunConfig, Sampling

MAX_DRAFT = 64
LARGEST_SEED = 2**63 - 1
DRAFTERS = ("model", "eagle3", "ngram", PLAIN)
TREE_RANGES = {"tokens": (1, 256), "depth": (1, 32), "top_k": (1, 64)}


def validate(config: RunConfig, pair: Pair) -> None:
    """Raises ValueError for the first invalid field. ``validate_length`` checks the length of the
    prompt."""
    _sampling(config.sampling)
    rows = input_embedding(pair.target).num_embeddings
    _processors(config.sampling.processors, pair, rows)
    _drafter(config.drafter, pair)
    _require(
        config.rule.name in RULES,
        f"The rule is {config.rule.name!r}; it must be one of {', '.join(RULES)}.",
    )
    rule = RULES[config.rule.name]
    rule.values(config.rule.parameters)
    _combination(rule, config.drafter)
    _require(
        0 <= config.seed <= LARGEST_SEED, f"seed is {config.seed}; it must be 0 to {LARGEST_SEED}."
    )
    _require(all(config.prompt.stop), "A stop string is empty; each needs at least 1 character.")
    for position, token in enumerate(config.prefix):
        place = f"Token {position} of the given beginning"
        _require(
            0 <= token < rows, f"{place} has id {token}; this target's ids are 0 to {rows - 1}."
        )
        _require(
            token not in pair.eos_ids, f"{place}, id {token}, ends the text; nothing can follow it."
        )


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise ValueError(message)


def validate_length(config: RunConfig, prompt: int, context: int, model: str) -> None:
    """Raises ValueError if ``prompt`` tokens, the prefix and the new tokens do not fit into the
    ``context`` of ``model``."""
    given = len(config.prefix)
    available = context - prompt - given
    begun = f" and the given beginning {given}" if given else ""
    alone = "prompt and beginning alone do not" if given else "the prompt alone does not"
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
        f"temperature is {temperature:g}; it must be 0 (greedy) or {LEAST_TEMPERATURE:g} to 100.",
    )
    _require(top_k >= 0, f"top_k is {top_k}; it must be 0 (off) or more.")
    _require(0 < top_p <= 1, f"top_p is {top_p:g}; it must be above 0 and at most 1 (off).")


def _processors(processors: Processors, pair: Pair, rows: int) -> None:
    for name, (low, high, _) in PROCESSORS.items():
        value = getattr(processors, name)
        _require(low <= value <= high, f"{name} is {value:g}; it must be {low:g} to {high:g}.")
    _require(len(processors.logit_bias) <= 64, "More than 64 words have a bias; 64 are the most.")
    for word, bias in processors.logit_bias:
        _require(
            bias <= 1000,
            f"The bias of {word!r} is {bias:g}; 1000 is the most, and -inf bans the word.",
        )
        ids = word_ids(pair.tokenizer, word)
        _require(
            max(ids, default=rows) < rows,
            f"The ids of the word {word!r} are {list(ids)}; there must be some, each 0 to {rows - 1}.",
        )


def _drafter(drafter: DrafterConfig, pair: Pair) -> None:
    kind, tree, longest = drafter.kind, drafter.tree, MAX_DRAFT
    _require(kind in DRAFTERS, f"The drafter is {kind!r}; it must be one of {', '.join(DRAFTERS)}.")
    k_fits = kind == PLAIN or tree is not None or 1 <= drafter.k <= longest
    _require(
        k_fits, f"K is {drafter.k}; it must be 1 to {longest} (for no drafts choose rule none)."
    )
    parts = {"model": ("draft model", pair.draft), "eagle3": ("EAGLE-3 head", pair.head)}
    name, part = parts.get(kind, ("", pair))
    others = ", ".join(
        [*(other for other, (_, there) in parts.items() if there is not None), "ngram"]
    )
    _require(
        part is not None,
        f"The pair {pair.spec.key} has no {name}; choose drafter {others} or none.",
    )
    possible = kind == "model" or drafter.mode is not DraftMode.SAMPLED
    _require(
        possible,
        f"Draft mode is sampled and the drafter {kind}; only a draft model samples its drafts.",
    )
    if tree is not None:
        _require(
            kind == "eagle3",
            f"A draft tree is set and the drafter is {kind}; only eagle3 drafts trees.",
        )
        for field, (low, high) in TREE_RANGES.items():
            value = getattr(tree, field)
            _require(
                low <= value <= high,
                f"{field} of the draft tree is {value}; it must be {low} to {high}.",
            )


def _combination(rule: Rule, drafter: DrafterConfig) -> None:
    """Raises ValueError if the rule is not defined for the drafter."""
    _require(
        (rule.name == PLAIN) is (drafter.kind == PLAIN),
        f"The rule is {rule.name} and the drafter {drafter.kind}; rule none and drafter none can only be used together.",
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
    known = not rule.needs_distribution or drafter.kind != "ngram"
    _require(known, f"Rule {rule.name} needs the drafter's probabilities; drafter ngram has none.")
