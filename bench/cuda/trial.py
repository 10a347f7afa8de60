"""Where and how large a part measures, the pairs and drafters that all parts use, and captures as a CPU can play them in a rehearsal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from bench.common.decoding import DRAFTERS, TREE, Ours, lossless
from bench.common.measure import Method, Samples, interleaved
from bench.common.shapes import PUBLIC, Trio, tiny
from bench.coupled import coupled_pair, prompts
from mars_core.decoder import is_fast
from mars_core.engine import Engines, capture
from mars_core.models import Pair
from mars_core.types import DrafterConfig, RuleConfig, TreeShape

NOISE = 0.1  # of the pairs; the larger, the less often a draft is right
Outputs = TypeVar("Outputs")


class Size(NamedTuple):
    """Of a measurement. ``tokens``: of a text; ``prompts`` and ``rounds``: of interleaved runs; ``texts``: that are compared."""

    tokens: int
    prompts: int
    rounds: int
    texts: int
    dtype: torch.dtype
    tree: TreeShape  # as heads of large models are used with


FULL = Size(96, 8, 4, 16, torch.bfloat16, TreeShape())
TINY = Size(14, 2, 1, 2, torch.float32, TREE)


@dataclass(frozen=True, slots=True)
class Trial:
    """Where a part measures, how large, and until when, on ``time.perf_counter``. ``tiny``: sizes for a rehearsal on a CPU."""

    device: torch.device
    tiny: bool
    until: float

    @property
    def size(self) -> Size:
        return TINY if self.tiny else FULL

    @property
    def drafters(self) -> Mapping[str, DrafterConfig]:
        return {**DRAFTERS, "EAGLE-3 tree": DrafterConfig("eagle3", tree=self.size.tree)}

    def share(self, part: float) -> float:
        """The time at which this part of what is left is over."""
        now = time.perf_counter()
        return now + part * (self.until - now)

    def trio(self, key: str) -> Trio:
        return tiny(PUBLIC[key]) if self.tiny else PUBLIC[key]

    def pair(self, key: str) -> Pair:
        """As it is used on CUDA: passes are exact and, if both models have fast layers, steps captured."""
        pair = coupled_pair(self.trio(key), NOISE, self.device, self.size.dtype)
        return switched(pair, graphs=all(is_fast(each) for each in (pair.target, pair.draft) if each), exact=True)

    def ours(
        self, pair: Pair, name: str, temperature: float = 0.0, *, rule: str = "strict", meter: bool = True
    ) -> Ours:
        """Decoding with the drafter of this name."""
        drafter = self.drafters[name]
        chosen = RuleConfig(rule) if rule != "strict" else lossless(drafter)
        return Ours(pair, chosen, drafter, temperature, self.size.tokens, meter)

    def interleaved(self, methods: Mapping[str, Method], part: float) -> Samples:
        """All methods in turns, in this part of the time that is left."""
        size = self.size
        return interleaved(methods, prompts(size.prompts), size.rounds, warm_up=1, until=self.share(part))


def switched(pair: Pair, **switches: Any) -> Pair:
    """The same models with engines of their own."""
    return replace(pair, engines=Engines(), **switches)


class Called(Generic[Outputs]):
    """In place of ``Captured``: the function is called instead of being replayed, and its numbers go where those of the first call
    stand, as a graph writes them."""

    def __init__(self, function: Callable[[], Outputs], device: torch.device) -> None:
        assert device.type == "cpu"
        self._function = function
        self.outputs = function()

    def replay(self) -> Outputs:
        for first, later in zip(_tensors(self.outputs), _tensors(self._function()), strict=True):
            first.copy_(later)
        return self.outputs


def without_graphs() -> None:
    """For the rest of this process."""
    capture.Captured = Called  # type: ignore[misc, assignment]


def _tensors(outputs: Any) -> Iterable[Tensor]:
    """Of a tensor, a list of them, or a value with fields that are."""
    if isinstance(outputs, Tensor):
        return [outputs]
    values = [getattr(outputs, each.name) for each in fields(outputs)] if is_dataclass(outputs) else outputs
    return [value for value in values if isinstance(value, Tensor)]
