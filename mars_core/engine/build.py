"""From a configuration to an engine: the shape of its passes, what it is built for, its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mars_core.decoder import ModelCache, Room, open_cache
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

_CHAIN_ROWS = 16  # of exact passes without a tree, whatever K is: a longer chain is read in several
_CHAIN_SPARE = 80  # positions that the longest chain takes in such passes
_WIDTHS = 256  # widths are multiples of it, so that texts of about the same length share engines


def exact_passes(config: RunConfig, tokens: int) -> PassShape:
    """The shape of an exact run's passes, which follows from drafter and length alone; that of the run that ``config`` goes on from,
    where it is large enough."""
    tree = config.drafter.tree
    rows = _CHAIN_ROWS if tree is None or tree.top_k == 1 else round_up(tree.tokens + 1, _CHAIN_ROWS)
    width = round_up(tokens + max(rows, _CHAIN_SPARE), _WIDTHS)
    had = config.passes
    return had if had is not None and had.rows == rows and had.width >= width else PassShape(rows, width)


class Kind(NamedTuple):
    """What an engine is built for; an idle one serves any run of its kind."""

    drafter: DrafterConfig
    rule: str
    parameters: tuple[tuple[str, float], ...]
    sampling: Sampling
    room: Room  # of the target
    meter: bool


def kind_of(pair: Pair, config: RunConfig, tokens: int, meter: bool) -> Kind:
    """For a text of at most ``tokens`` tokens, the prompt included."""
    nodes, passes = config.drafter.tree.tokens if config.drafter.tree else config.drafter.k, config.passes
    if passes is not None:
        longest = min(passes.width - max(passes.rows, _CHAIN_SPARE), pair.context)
        room = Room(longest, passes.width - longest, passes.rows, whole=True)
    elif pair.graphs:
        room = Room(min(round_up(tokens, _WIDTHS), pair.context), nodes + 1, whole=True)
    else:
        room = Room(tokens, nodes + 1)
    parameters = tuple(sorted(config.rule.parameters.items()))
    return Kind(config.drafter, config.rule.name, parameters, config.sampling, room, meter)


def build(pair: Pair, kind: Kind) -> Engine:
    head = pair.head if kind.drafter.kind == "eagle3" else None
    target = open_cache(pair.target, kind.room, head.config.taps if head else ())
    verifier = Verifier(target, RULES[kind.rule], dict(kind.parameters), kind.sampling, kind.drafter.mode, kind.meter)
    return Engine(verifier, _drafter(pair, kind, target), pair.eos_ids, captures=pair.graphs)


def _drafter(pair: Pair, kind: Kind, target: ModelCache) -> Drafter:
    drafter, tokens = kind.drafter, kind.room.tokens
    if drafter.kind == "eagle3" and pair.head is not None:
        shape = drafter.tree or TreeShape(drafter.k, drafter.k, 1)
        return Eagle3Drafter(pair.head, target.features, shape, tokens, whole=pair.graphs)
    if drafter.kind == "model" and pair.draft is not None:
        sampling, rows = kind.sampling, pair.vocabulary
        return ModelDrafter(pair.draft, tokens, drafter.k, drafter.mode, sampling, rows, whole=pair.graphs)
    return NgramDrafter(drafter.k if drafter.kind == "ngram" else 0)  # of 0 tokens: plain decoding
