"""Device and sizes of the measurement, shared pairs and drafters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from bench.common.decoding import DRAFTERS, TREE, Ours
from bench.common.measure import Method, Samples, interleaved
from bench.cuda.coupled import coupled_pair, prompts
from bench.cuda.shapes import PUBLIC, TINY_SHAPES, Trio
from mars_core.decoder import has_kernels, is_fast
from mars_core.models import Pair
from mars_core.models.checks.exactness import find_shapes, real_text
from mars_core.models.idle import Engines
from mars_core.types import TreeShape

NOISE = 0.1  # of the pairs; the larger, the lower the acceptance rate


class Size(NamedTuple):
    """Sizes of a measurement. ``tokens``: of a text; ``prompts`` and ``rounds``: of interleaved
    runs; ``texts``: compared texts; ``copied``: bytes of a buffer."""

    trios: Mapping[str, Trio]
    tokens: int
    prompts: int
    rounds: int
    texts: int
    slots: tuple[int, ...]
    copied: int
    dtype: torch.dtype
    tree: TreeShape  # typical for heads of large models


# as many prompts as an H200 was measured with in ten minutes
FULL = Size(PUBLIC, 96, 2, 1, 12, (1, 4, 16), 2**31, torch.bfloat16, TreeShape())
TINY = Size(TINY_SHAPES, 14, 2, 1, 2, (1, 2), 2**22, torch.float32, TREE)  # of a trial on a CPU


class CudaTrial(NamedTuple):
    device: torch.device
    size: Size

    def pair(self, key: str) -> Pair:
        """Return the pair as used on CUDA: with kernels or exact shapes and, where both models have
        fast layers, captured steps."""
        pair = coupled_pair(self.size.trios[key], NOISE, self.device, self.size.dtype)
        text = real_text(pair.tokenizer, pair.vocabulary)
        models = [each for each in (pair.draft, pair.target) if each]
        kernels = has_kernels(self.device, self.size.dtype) and all(
            find_shapes(each, text, exact=False, kernels=True).shapes.kernels
            for each in models[:-1]
        )
        shapes = find_shapes(pair.target, text, kernels=kernels)
        graphs = pair.graphs and all(is_fast(each) for each in models)
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
        drafter = DRAFTERS[name]
        if drafter.tree:
            drafter = replace(drafter, tree=self.size.tree)
        return Ours(pair, rule, drafter, temperature, self.size.tokens, telemetry)

    def interleaved(self, methods: Mapping[str, Method]) -> Samples:
        return interleaved(methods, prompts(self.size.prompts), self.size.rounds, warm_up=1)


def switched(pair: Pair, **switches: Any) -> Pair:
    """Return the same models with separate engines."""
    return replace(pair, engines=Engines(), **switches)
