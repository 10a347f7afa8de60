"""A kind of drafter as a value, and a drafter at work. Imports no torch, so that
menus and options can be made from the table before a model is loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from mars_core.types import DrafterConfig, DraftMode, Sampling

if TYPE_CHECKING:
    from torch import Tensor

    from mars_core.decoder import ModelCache
    from mars_core.decoder.positions import Start
    from mars_core.engine.processors import Processor
    from mars_core.models import Pair
    from mars_core.verification import Draft


class Inputs(NamedTuple):
    """Inputs of a draft: host numbers that are copied to the device together."""

    size: int  # tokens to draft; at most the limit
    start: int  # position of the drafter's cache at which it continues
    numbers: Sequence[int] = ()


class Drafter:
    """One drafter serves one run at a time. ``ids`` is prompt and output so far; the target has not
    read the last one yet. This one drafts nothing. One that needs no model overrides
    ``continuation``, and its drafts have q = 1; others override the rest."""

    computes = False  # whether ``draft`` computes on the device

    def __init__(self, longest: int) -> None:
        self.longest = longest  # maximum number of tokens that it can draft in one step

    def begin(self, ids: Sequence[int], features: Tensor) -> None:
        """Resets the state and reads the prompt of a new run. ``features`` [len(ids) - 1, layers ·
        T]: the target's."""

    def continuation(self, ids: Sequence[int], limit: int) -> Sequence[int]:
        """At most ``limit`` tokens that may follow ``ids``, which within a run only grow."""
        return ()

    def inputs(self, ids: Sequence[int], limit: int) -> Inputs:
        """The inputs for a draft of at most ``limit`` ≥ 1 tokens after ``ids``."""
        drafted = self.continuation(ids, min(limit, self.longest))
        return Inputs(len(drafted), 0, [ids[-1], *drafted])

    def draft(self, size: int, start: Start, numbers: Tensor, noise: Tensor | None) -> Draft:
        """The draft from ``Inputs`` on the device. With ``noise`` [≥ size, V] for the positions
        from the next one on, tokens are drawn; without it the most likely ones are taken. Uses
        device operations only, whose shapes depend on ``size`` and the number of ``numbers`` only;
        may be called again with the same arguments."""
        from mars_core.verification import certain, chain_draft  # imported here: they load torch

        return chain_draft(numbers, certain(size, numbers.device))

    def commit(self, ids: Sequence[int], path: Sequence[int]) -> None:
        """Of the nodes drafted after ``ids``, those on ``path`` (root 0 first) are now part of the
        text; the others are discarded."""


class Parts(NamedTuple):
    """What a drafter is built from."""

    pair: Pair
    config: DrafterConfig
    sampling: Sampling
    tokens: int  # of the longest text, prompt included
    target: ModelCache
    processor: Processor | None


@dataclass(frozen=True, slots=True)
class DrafterKind:
    """All that the program knows of one kind of drafter. ``name`` is stored with runs: it never
    changes. All texts are displayed; ``title`` stands within a sentence."""

    name: str
    title: str  # what it is: ``n-gram lookup``
    drafts: str  # what it writes: ``n-gram drafts``
    summary: str
    source: str
    build: Callable[[Parts], Drafter]
    part: str = (
        ""  # the model that it needs beside the target: a field of PairSpec, Models and Pair
    )
    option: str = ""  # values of --drafter that select it, in words; by default the name
    modes: tuple[DraftMode, ...] = (DraftMode.GREEDY,)  # the default first; coupled ones need q
    chains: bool = True  # of K tokens
    trees: bool = False
    feature_layers: Callable[[Pair], Sequence[int]] = (
        lambda _: ()
    )  # layers of the target whose input it reads
    vllm: str = ""  # its name in vLLM

    def model(self, models: object) -> Any:
        """The model that it needs, of a pair or of a study; None where there is none."""
        return getattr(models, self.part) if self.part else None

    def ref(self, pair: Pair) -> Any:
        """The resolved reference of that model."""
        return getattr(pair, f"{self.part}_ref") if self.part else None

    def mode(self, wanted: DraftMode) -> DraftMode:
        """The mode, or the default where it does not draft in that way."""
        return wanted if wanted in self.modes else self.modes[0]
