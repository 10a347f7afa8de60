"""Builds an engine from a configuration: cache sizes and parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import torch

from mars_core.decoder import ANY_SHAPE, CacheSize, input_embedding, open_cache
from mars_core.decoder.cache import round_up
from mars_core.drafting import Parts, context_limit, drafter_kind
from mars_core.engine.engine import Engine
from mars_core.engine.verifier import Verifier
from mars_core.processors import Processor, word_ids
from mars_core.rules import RULES, expressions, protecting, reads_score
from mars_core.rules.expression import SCORE
from mars_core.text.protected import protected_ids
from mars_core.types import DrafterConfig, DraftMode, Parameters, Processors, RunConfig
from mars_core.verification import Span, Terms

if TYPE_CHECKING:
    from mars_core.models import Pair

# engines are for lengths in multiples of this, so that texts of similar length share them
_WIDTHS = 256
_SPLIT = {"cpu"}  # devices on which a step of many rows may be several passes


class Kind(NamedTuple):
    """The key of an engine: an idle one can serve any run of the same kind."""

    drafter: DrafterConfig  # its mode says nothing
    scores: bool  # whether the pair's classifier reads the target's last hidden states
    cache_size: CacheSize  # of the target


def kind_of(pair: Pair, config: RunConfig, tokens: int, slots: int = 1) -> Kind:
    """Return the kind for texts of at most ``tokens`` tokens, the prompt included. Steps of more
    rows than kernels are for are not exact on CUDA, where they are one pass by other layers."""
    nodes = config.drafter.tree.tokens if config.drafter.tree else config.drafter.k
    shared = pair.graphs or slots > 1
    longest = min(round_up(tokens, _WIDTHS), context_limit(pair, config.drafter).tokens)
    rows = slots * (nodes + 1)
    split = pair.device.type in _SPLIT
    many = pair.shapes.kernels and not split and rows > pair.shapes.most_rows
    size = CacheSize(
        longest if shared else tokens,
        nodes + 1,
        ANY_SHAPE if many else pair.shapes,
        full_width=pair.graphs,
        slots=slots,
    )
    return Kind(replace(config.drafter, mode=DraftMode.GREEDY), reads_score(config.rule), size)


def protected(pair: Pair, protect: Sequence[str]) -> frozenset[int]:
    """Return the ids that ``Processors.protect`` names."""
    size = input_embedding(pair.target).num_embeddings
    return protected_ids(pair.tokenizer, pair.pieces, pair.eos_ids, size, protect)


def build(pair: Pair, kind: Kind) -> Engine:
    drafter = drafter_kind(kind.drafter.kind)
    last = [pair.target.config.get_text_config().num_hidden_layers] if kind.scores else []
    target = open_cache(pair.target, kind.cache_size, [*drafter.feature_layers(pair), *last])
    parts = Parts(pair, kind.drafter, target)
    return Engine(target, drafter.build(parts), pair.eos_ids, captures=pair.graphs)


def thinking_span(pair: Pair, parameters: Parameters) -> Span | None:
    """Return the tokens of the phase that the parameters read as ``thinking``; None if none does.
    Raises ValueError where the target has no such token, where both are the same, and for several
    phases."""
    spans = {each.span for each in expressions(parameters).values() if each.span}
    if not spans:
        return None
    if len(spans) > 1:
        raise ValueError("The parameters read several phases of thinking; a run has one.")
    span, ids = spans.pop(), list[int]()
    for word in span:
        token = word_ids(pair.tokenizer, word)
        if len(token) != 1:
            raise ValueError(
                f"A parameter reads thinking, and this target has no token {word!r}; "
                "thinking('BEGIN', 'END') names two that it has."
            )
        ids += token
    if ids[0] == ids[1]:
        raise ValueError(
            f"A parameter reads thinking, and {span[0]!r} and {span[1]!r} are one token of this "
            "target; a phase needs two."
        )
    return Span(*ids)


def verifier_of(pair: Pair, config: RunConfig, kind: Kind, telemetry: bool) -> Verifier:
    """Return the verifier of a run in an engine of the kind. TV is computed where a parameter reads
    it."""
    telemetry |= any("tv" in each.names for each in expressions(config.rule.parameters).values())
    rule, size = RULES[config.rule.name], input_embedding(pair.target).num_embeddings
    parameters, mode = config.rule.parameters, config.drafter.mode
    decided = {name: value for name, value in parameters.items() if name not in rule.planned}
    protect = config.sampling.processors.protect
    chosen, processor = replace(config.sampling.processors, protect=()), None
    if ids := protected(pair, protect):
        mask = torch.zeros(size, dtype=torch.bool).index_fill_(0, torch.tensor([*ids]), True)
        rule = protecting(rule, mask.to(pair.device))
    if replace(chosen, min_p=0.0, typical_p=1.0) != Processors():
        processor = Processor(chosen, pair.tokenizer, kind.cache_size.tokens, pair.device)
    sampling, span = replace(config.sampling, processors=chosen), thinking_span(pair, parameters)
    producers = {SCORE: pair.classifier} if kind.scores and pair.classifier else {}
    return Verifier(
        (config.rule.name, tuple(decided.items()), config.sampling, mode, telemetry),
        Terms(rule, dict(parameters), sampling, mode, telemetry, span),
        size,
        processor,
        producers,
    )
