"""Builds an engine from a configuration: cache sizes and parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import torch

from mars_core.decoder import CacheSize, input_embedding, open_cache
from mars_core.decoder.cache import round_up
from mars_core.drafting import Parts, drafter_kind
from mars_core.engine.engine import Engine, Verifier
from mars_core.engine.processors import Processor
from mars_core.rules import RULES, protecting
from mars_core.text.protected import protected_ids
from mars_core.types import DrafterConfig, Processors, RunConfig, Sampling

if TYPE_CHECKING:
    from mars_core.models import Pair

# captured engines are for lengths in multiples of this, so that texts of similar length share them
_WIDTHS = 256


class Kind(NamedTuple):
    """The key of an engine: an idle one can serve any run of the same kind."""

    drafter: DrafterConfig
    rule: str
    parameters: tuple[tuple[str, float], ...]
    sampling: Sampling
    cache_size: CacheSize  # of the target
    telemetry: bool


def kind_of(pair: Pair, config: RunConfig, tokens: int, telemetry: bool) -> Kind:
    """For a text of at most ``tokens`` tokens, the prompt included."""
    nodes = config.drafter.tree.tokens if config.drafter.tree else config.drafter.k
    longest = (
        min(round_up(tokens, _WIDTHS), pair.limit(config.drafter).tokens) if pair.graphs else tokens
    )
    cache_size = CacheSize(longest, nodes + 1, pair.shapes, full_width=pair.graphs)
    parameters = tuple(sorted(config.rule.parameters.items()))
    return Kind(
        config.drafter, config.rule.name, parameters, config.sampling, cache_size, telemetry
    )


def protected(pair: Pair, protect: Sequence[str]) -> frozenset[int]:
    """The ids that ``Processors.protect`` names."""
    size = input_embedding(pair.target).num_embeddings
    return protected_ids(pair.tokenizer, pair.pieces, pair.eos_ids, size, protect)


def build(pair: Pair, kind: Kind) -> Engine:
    drafter = drafter_kind(kind.drafter.kind)
    target = open_cache(pair.target, kind.cache_size, drafter.feature_layers(pair))
    rule, size = RULES[kind.rule], input_embedding(pair.target).num_embeddings
    chosen, processor = replace(kind.sampling.processors, protect=()), None
    sampling = replace(kind.sampling, processors=chosen)
    if ids := protected(pair, kind.sampling.processors.protect):
        mask = torch.zeros(size, dtype=torch.bool).index_fill_(0, torch.tensor([*ids]), True)
        rule = protecting(rule, mask.to(pair.device))
    if replace(chosen, min_p=0.0, typical_p=1.0) != Processors():
        processor = Processor(chosen, pair.tokenizer, kind.cache_size.tokens, pair.device)
    tokens = kind.cache_size.tokens
    parts = Parts(pair, kind.drafter, sampling, tokens, target, processor)
    verifier = Verifier(
        target,
        rule,
        dict(kind.parameters),
        sampling,
        kind.drafter.mode,
        kind.telemetry,
        size,
        processor,
    )
    return Engine(verifier, drafter.build(parts), pair.eos_ids, captures=pair.graphs)
