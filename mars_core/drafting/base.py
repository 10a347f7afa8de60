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
    from mars_core.decoder.positions import Rows
    from mars_core.models import Pair
    from mars_core.processors import Processor
    from mars_core.sampling import Chance
    from mars_core.verification import Draft


class Inputs(NamedTuple):
    """Inputs of the draft of a text: host numbers that are copied to the device. ``size``: its
    longest path; ``start``: position of the drafter's cache at which it continues; ``numbers``:
    followed by zeros where another text has more."""

    size: int
    start: int
    numbers: Sequence[int]


class TextGroup(NamedTuple):
    """The texts of a step that are drafted in the same way: their ``rows``, ascending, with a
    processor each or none, and their random numbers, for the positions from the next one on."""

    rows: Sequence[int]
    sampling: Sampling
    processors: Sequence[Processor]
    chance: Chance

    @property
    def noise(self) -> Tensor | None:
        """With which tokens are drawn, [len(rows), > size, V]; None: the most likely ones are
        taken."""
        return self.chance.draft


class DraftInputs(NamedTuple):
    """What drafts for A texts are made from, on the device. ``roots``: where the last token of each
    text stands; ``starts``, ``limits`` [A] and ``numbers`` [A, m]: their ``Inputs``."""

    size: int  # depth of all drafts
    roots: Rows
    starts: Rows
    limits: Tensor
    numbers: Tensor


class TextLookup:
    """Finds drafts in one text, without a model."""

    def continuation(self, ids: Sequence[int], limit: int) -> Sequence[int]:
        """Return at most ``limit`` tokens that may follow ``ids``, which only grow."""
        return ()


class Drafter:
    """Drafts for the texts in the slots of an engine. This one takes its drafts from a ``TextLookup``
    of each text, with q = 1; others override all methods."""

    computes = False  # whether ``draft`` computes on the device

    def __init__(self, longest: int, lookup: Callable[[], TextLookup] = TextLookup) -> None:
        self.longest = longest  # maximum number of tokens that it can draft in one step
        self.width = longest + 1  # maximum number of the ``numbers`` of a text
        self._lookup, self._lookups = lookup, dict[int, TextLookup]()

    def begin(self, slot: int, ids: Sequence[int], features: Tensor, prefix: int = 0, /) -> None:
        """Reads the prompt of a new text in a slot; its last ``prefix`` tokens are output.
        ``features`` [len(ids) - 1, layers · T]: the target's."""
        self._lookups[slot] = self._lookup()

    def inputs(self, slot: int, ids: Sequence[int], limit: int) -> Inputs:
        """Return the inputs for a draft after a text: prompt and output so far, of which the target
        has not read the last token yet. ``limit``: most tokens of a path of the draft, at most
        ``longest``."""
        drafted = self._lookups[slot].continuation(ids, limit)
        return Inputs(len(drafted), 0, [ids[-1], *drafted])

    def nodes(self, size: int) -> int:
        """Drafted tokens of a draft whose longest path has ``size``."""
        return size

    def draft(self, inputs: DraftInputs, groups: Sequence[TextGroup], /) -> Draft:
        """Return a draft for each text, with ``nodes(size)`` nodes; those that are deeper than the
        text's limit come last and mean nothing. ``groups``: all texts. Uses device operations
        only, whose shapes depend on ``size`` and m only; may be called again with the same
        inputs."""
        from mars_core.verification import certain, chain_draft  # imported here: they load torch

        ids = inputs.numbers[:, : inputs.size + 1]
        return chain_draft(ids, certain(inputs.size, ids.device).expand(len(ids), -1))

    def commit(self, slot: int, ids: Sequence[int], path: Sequence[int]) -> None:
        """Take the nodes on ``path`` (root 0 first), of those drafted after ``ids``, into the text;
        the others are discarded."""


class Parts(NamedTuple):
    """What a drafter is built from."""

    pair: Pair
    config: DrafterConfig
    target: ModelCache


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
        """Return the model that it needs, of a pair or of a study; None where there is none."""
        return getattr(models, self.part) if self.part else None

    def ref(self, pair: Pair) -> Any:
        """Return the resolved reference of that model."""
        return getattr(pair, f"{self.part}_ref") if self.part else None

    def mode(self, wanted: DraftMode) -> DraftMode:
        """Return the mode, or the default where it does not draft in that way."""
        return wanted if wanted in self.modes else self.modes[0]
