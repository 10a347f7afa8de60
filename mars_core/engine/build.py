"""Builds an engine from a configuration: shape of its passes, cache sizes and parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mars_core.decoder import CacheSize, ModelCache, input_embedding, open_cache
from mars_core.decoder.cache import round_up
from mars_core.drafting.base import Drafter
from mars_core.drafting.eagle3 import Eagle3Drafter
from mars_core.drafting.model import ModelDrafter
from mars_core.drafting.ngram import NgramDrafter
from mars_core.engine.engine import Engine, Verifier
from mars_core.rules import RULES
from mars_core.types import DrafterConfig, PassShape, RunConfig, Sampling, TreeShape

if TYPE_CHECKING:
    from mars_core.models import Pair

_CHAIN_ROWS = 16  # rows of exact passes without a tree, for every K: a longer chain is read in several passes
_CHAIN_SPARE = 80  # positions that the longest chain needs in such passes
_WIDTHS = 256  # widths are multiples of this, so that texts of similar length share engines


def exact_passes(config: RunConfig, tokens: int) -> PassShape:
    """The shape of an exact run's passes. It depends on drafter and length only; a continued run keeps the shape of its original
    run if that is large enough."""
    tree = config.drafter.tree
    rows = _CHAIN_ROWS if tree is None or tree.top_k == 1 else round_up(tree.tokens + 1, _CHAIN_ROWS)
    width = round_up(tokens + max(rows, _CHAIN_SPARE), _WIDTHS)
    source = config.passes
    return source if source is not None and source.rows == rows and source.width >= width else PassShape(rows, width)


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
    nodes, passes = config.drafter.tree.tokens if config.drafter.tree else config.drafter.k, config.passes
    if passes is not None:
        longest = min(passes.width - max(passes.rows, _CHAIN_SPARE), pair.context)
        cache_size = CacheSize(longest, passes.width - longest, passes.rows, whole=True)
    elif pair.graphs:
        cache_size = CacheSize(min(round_up(tokens, _WIDTHS), pair.context), nodes + 1, whole=True)
    else:
        cache_size = CacheSize(tokens, nodes + 1)
    parameters = tuple(sorted(config.rule.parameters.items()))
    return Kind(config.drafter, config.rule.name, parameters, config.sampling, cache_size, meter)


def build(pair: Pair, kind: Kind) -> Engine:
    head = pair.head if kind.drafter.kind == "eagle3" else None
    target = open_cache(pair.target, kind.cache_size, head.config.taps if head else ())
    rule, size = RULES[kind.rule], input_embedding(pair.target).num_embeddings
    verifier = Verifier(target, rule, dict(kind.parameters), kind.sampling, kind.drafter.mode, kind.meter, size)
    return Engine(verifier, _drafter(pair, kind, target), pair.eos_ids, captures=pair.graphs)


def _drafter(pair: Pair, kind: Kind, target: ModelCache) -> Drafter:
    drafter, tokens, sampling = kind.drafter, kind.cache_size.tokens, kind.sampling
    if drafter.kind == "eagle3" and pair.head is not None:
        shape = drafter.tree or TreeShape(drafter.k, drafter.k, 1)
        return Eagle3Drafter(pair.head, target.features, shape, sampling, tokens, whole=pair.graphs)
    if drafter.kind == "model" and pair.draft is not None:
        return ModelDrafter(pair.draft, tokens, drafter.k, sampling, pair.vocabulary, whole=pair.graphs)
    return NgramDrafter(drafter.k if drafter.kind == "ngram" else 0)  # 0 tokens: plain decoding
