"""Where and how large a part measures, and the pairs and drafters that all parts use."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from bench.common.decoding import DRAFTERS, Ours, lossless
from bench.common.shapes import PUBLIC, Trio, tiny
from bench.coupled import coupled_pair
from mars_core.decoder import is_fast
from mars_core.engine import Engines
from mars_core.models import Pair
from mars_core.types import DrafterConfig, RuleConfig, TreeShape

NOISE = 0.1  # of the pairs; the larger, the less often a draft is right


@dataclass(frozen=True, slots=True)
class Trial:
    """Where a part measures, how large, and until when, on ``time.perf_counter``. ``tiny``: sizes for a rehearsal on a CPU."""

    device: torch.device
    tiny: bool
    until: float

    @property
    def dtype(self) -> torch.dtype:
        return torch.float32 if self.tiny else torch.bfloat16

    @property
    def tokens(self) -> int:
        """Of a text."""
        return 14 if self.tiny else 96

    @property
    def prompts(self) -> int:
        return 2 if self.tiny else 8

    @property
    def rounds(self) -> int:
        return 1 if self.tiny else 4

    @property
    def drafters(self) -> Mapping[str, DrafterConfig]:
        """By name; trees are of the size that heads of large models are used with."""
        tree = DRAFTERS["EAGLE-3 tree"] if self.tiny else DrafterConfig("eagle3", tree=TreeShape())
        return {**DRAFTERS, "EAGLE-3 tree": tree}

    def share(self, part: float) -> float:
        """The time at which this part of what is left is over."""
        now = time.perf_counter()
        return now + part * (self.until - now)

    def trio(self, key: str) -> Trio:
        return tiny(PUBLIC[key]) if self.tiny else PUBLIC[key]

    def pair(self, key: str) -> Pair:
        """As it is used on CUDA: passes are exact and, if both models have fast layers, steps captured."""
        pair = coupled_pair(self.trio(key), NOISE, self.device, self.dtype)
        return switched(pair, graphs=all(is_fast(each) for each in (pair.target, pair.draft) if each), exact=True)

    def ours(
        self, pair: Pair, name: str, temperature: float = 0.0, *, rule: str = "strict", meter: bool = True
    ) -> Ours:
        """Decoding with the drafter of this name."""
        drafter = self.drafters[name]
        chosen = RuleConfig(rule) if rule != "strict" else lossless(drafter)
        return Ours(pair, chosen, drafter, temperature, self.tokens, meter)


def switched(pair: Pair, **switches: Any) -> Pair:
    """The same models with engines of their own."""
    return replace(pair, engines=Engines(), **switches)
