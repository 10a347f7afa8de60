"""Builds an engine from a configuration: cache sizes and parts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from mars_core.decoder import CacheSize, ModelCache, input_embedding, open_cache
from mars_core.decoder.cache import round_up
from mars_core.drafting.base import Drafter
from mars_core.drafting.eagle3 import Eagle3Drafter
from mars_core.drafting.model import ModelDrafter
from mars_core.drafting.ngram import NgramDrafter
from mars_core.engine.engine import Engine, Verifier
from mars_core.engine.processors import Processor
from mars_core.rules import RULES
from mars_core.types import DrafterConfig, Processors, RunConfig, Sampling, TreeShape

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
    meter: bool


def kind_of(pair: Pair, config: RunConfig, tokens: int, meter: bool) -> Kind:
    """For a text of at most ``tokens`` tokens, the prompt included."""
    nodes = config.drafter.tree.tokens if config.drafter.tree else config.drafter.k
    longest = (
        min(round_up(tokens, _WIDTHS), pair.limit(config.drafter).tokens) if pair.graphs else tokens
    )
    cache_size = CacheSize(longest, nodes + 1, pair.shapes, whole=pair.graphs)
    parameters = tuple(sorted(config.rule.parameters.items()))
    return Kind(config.drafter, config.rule.name, parameters, config.sampling, cache_size, meter)


def build(pair: Pair, kind: Kind) -> Engine:
    head = pair.head if kind.drafter.kind == "eagle3" else None
    target = open_cache(pair.target, kind.cache_size, head.config.taps if head else ())
    rule, size = RULES[kind.rule], input_embedding(pair.target).num_embeddings
    chosen, processor = kind.sampling.processors, None
    if replace(chosen, min_p=0.0, typical_p=1.0) != Processors():
        processor = Processor(chosen, pair.tokenizer, kind.cache_size.tokens, pair.device)
    given = dict(kind.parameters), kind.sampling, kind.drafter.mode, kind.meter, size, processor
    drafter = _drafter(pair, kind, target, processor)
    return Engine(Verifier(target, rule, *given), drafter, pair.eos_ids, captures=pair.graphs)


def _drafter(pair: Pair, kind: Kind, target: ModelCache, processor: Processor | None) -> Drafter:
    drafter, tokens, sampling = kind.drafter, kind.cache_size.tokens, kind.sampling
    if drafter.kind == "eagle3" and pair.head is not None:
        shape = drafter.tree or TreeShape(drafter.k, drafter.k, 1)
        return Eagle3Drafter(pair.head, target.features, shape, sampling, tokens, whole=pair.graphs)
    if drafter.kind == "model" and pair.draft is not None:
        return ModelDrafter(
            pair.draft, tokens, drafter.k, sampling, pair.vocabulary, processor, whole=pair.graphs
        )
    return NgramDrafter(drafter.k if drafter.kind == "ngram" else 0)  # 0 tokens: plain decoding
