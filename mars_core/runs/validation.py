"""Validates a RunConfig: every error is one sentence with the field, the value and the allowed
range."""

from __future__ import annotations

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
from mars_core.settings import KINDS, rule_named
from mars_core.settings.table import OF_RUNS, value_in
from mars_core.types import (
    SPECIAL,
    WITH_PROBABILITIES,
    DrafterConfig,
    Processors,
    RunConfig,
    ShiftKind,
    number_text,
)


def validate(config: RunConfig, pair: Pair) -> None:
    """Raises ValueError for the first invalid field. ``validate_length`` checks the length of the
    prompt."""
    _ranges(config)
    rows = input_embedding(pair.target).num_embeddings
    _words(config.sampling.processors, pair, rows)
    _drafter(config.drafter, pair)
    rule = rule_named(config.rule.name)
    rule.values(config.rule.parameters)
    _combination(rule, config.drafter)
    _expressions(config, pair)
    _classifier(config, pair)
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
    asked = "conversation" if config.prompt.history else "prompt"
    begun = f" and the given beginning {prefix}" if prefix else ""
    alone = f"{asked} and beginning alone do not" if prefix else f"the {asked} alone does not"
    _require(
        1 <= config.max_new_tokens <= available,
        f"max_new_tokens is {config.max_new_tokens}, and the {asked} has {prompt} tokens{begun}; "
        + (f"1 to {available} fit into" if available > 0 else f"{alone} fit into")
        + f" the context of {model}, {context} tokens.",
    )


def _ranges(config: RunConfig) -> None:
    """Raises ValueError for a value that the table of settings refuses."""
    for name in OF_RUNS:
        value = value_in(config, name)
        if name not in ("thinking", "max_new_tokens"):
            KINDS[name].read(value, name)
    temperature = config.sampling.temperature
    _require(
        temperature == 0 or temperature >= LEAST_TEMPERATURE,
        f"temperature is {number_text(temperature)}; it must be 0 (greedy) or at least "
        f"{LEAST_TEMPERATURE:g}.",
    )


def _words(processors: Processors, pair: Pair, rows: int) -> None:
    for word, _ in processors.logit_bias:
        ids = word_ids(pair.tokenizer, word)
        _require(
            max(ids, default=rows) < rows,
            f"The ids of the word {word!r} are {list(ids)}; there must be some, each 0 to "
            f"{rows - 1}.",
        )
    for word in processors.protect:
        _require(
            word == SPECIAL or bool(protected(pair, [word])),
            f"protect has {word!r}, which is no token of this target; it takes special, digits, "
            "quotes, the text of a token (* and ? stand for any text and any character), or ids "
            "such as [42].",
        )


def _drafter(drafter: DrafterConfig, pair: Pair) -> None:
    kind, tree = drafter_kind(drafter.kind), drafter.tree
    if kind.chains and tree is None:
        KINDS["k"].read(drafter.k, "k")
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
        KINDS["tree"].read(tree, "tree")


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
