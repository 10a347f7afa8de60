"""Device and sizes of a part, shared pairs and drafters, and emulated captures for a rehearsal on a
CPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from bench.common.decoding import DRAFTERS, TREE, Ours
from bench.common.measure import Method, Samples, interleaved
from bench.common.shapes import PUBLIC, Trio, tiny
from bench.coupled import coupled_pair, prompts
from mars_core.decoder import is_fast
from mars_core.engine import Engines, capture
from mars_core.models import Pair
from mars_core.models.checks.exactness import find_shapes, real_text
from mars_core.types import DrafterConfig, RuleConfig, TreeShape

NOISE = 0.1  # of the pairs; the larger, the lower the acceptance rate
Outputs = TypeVar("Outputs")


class Size(NamedTuple):
    """Sizes of a measurement. ``tokens``: of a text; ``prompts`` and ``rounds``: of interleaved
    runs; ``texts``: compared texts."""

    tokens: int
    prompts: int
    rounds: int
    texts: int
    dtype: torch.dtype
    tree: TreeShape  # typical for heads of large models


FULL = Size(96, 8, 4, 16, torch.bfloat16, TreeShape())
TINY = Size(14, 2, 1, 2, torch.float32, TREE)


@dataclass(frozen=True, slots=True)
class CudaTrial:
    """Device, sizes and end (on ``time.perf_counter``) of a part. ``tiny``: sizes for a rehearsal
    on a CPU."""

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
        """The end of this fraction of the remaining time."""
        now = time.perf_counter()
        return now + part * (self.until - now)

    def trio(self, key: str) -> Trio:
        return tiny(PUBLIC[key]) if self.tiny else PUBLIC[key]

    def pair(self, key: str) -> Pair:
        """The pair as used on CUDA: with exact passes and, if both models have fast layers,
        captured steps."""
        pair = coupled_pair(self.trio(key), NOISE, self.device, self.size.dtype)
        shapes = find_shapes(pair.target, real_text(pair.tokenizer, pair.vocabulary))
        graphs = all(is_fast(each) for each in (pair.target, pair.draft) if each)
        return switched(pair, graphs=graphs, **shapes._asdict())

    def ours(
        self,
        pair: Pair,
        name: str,
        temperature: float = 0.0,
        *,
        rule: str = "",
        telemetry: bool = True,
    ) -> Ours:
        """Decoding with the drafter of this name, by default losslessly."""
        chosen = RuleConfig(rule) if rule else None
        return Ours(pair, chosen, self.drafters[name], temperature, self.size.tokens, telemetry)

    def interleaved(self, methods: Mapping[str, Method], part: float) -> Samples:
        """Interleaves all methods, in this fraction of the remaining time."""
        size = self.size
        return interleaved(
            methods, prompts(size.prompts), size.rounds, warm_up=1, until=self.share(part)
        )


def switched(pair: Pair, **switches: Any) -> Pair:
    """The same models with separate engines."""
    return replace(pair, engines=Engines(), **switches)


class Called(Generic[Outputs]):
    """Replaces ``Captured``: the function is called instead of replayed, and its outputs are copied
    to those of the first call, as in a graph."""

    def __init__(self, function: Callable[[], Outputs], _device: torch.device) -> None:
        self._function = function
        self.outputs = function()

    def replay(self) -> Outputs:
        for first, later in zip(_tensors(self.outputs), _tensors(self._function()), strict=True):
            first.copy_(later)
        return self.outputs


def without_graphs() -> None:
    """Replaces captures for the rest of this process."""
    capture.Captured = Called  # type: ignore[misc, assignment]


def _tensors(outputs: Any) -> Iterable[Tensor]:
    """The tensors in a tensor, a list, or a value with such fields."""
    if isinstance(outputs, Tensor):
        return [outputs]
    if is_dataclass(outputs):
        outputs = [getattr(outputs, each.name) for each in fields(outputs)]
    if not isinstance(outputs, list | tuple):
        return []
    return [value for each in outputs for value in _tensors(each)]
