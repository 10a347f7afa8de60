"""What a step needs from the host: the texts that are written, and their numbers, which are copied
to the device at once."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from mars_core.capture import PinnedBuffer
from mars_core.decoder.positions import Rows
from mars_core.drafting.base import DraftInputs, Inputs
from mars_core.engine.verifier import Verifier
from mars_core.sampling import Use, words
from mars_core.verification import RunState, Terms, received_states


@dataclass(slots=True)
class WrittenText:
    """A text that is being written."""

    verifier: Verifier
    terms: Terms  # a capture's verifier may have other parameters for ``Rule.lot``
    ids: list[int]  # prompt and output so far
    first: int  # position of the first output token
    end: int  # tokens of the text at most
    seed: int
    state: RunState
    # accepted path of the latest tree, until its cache entries are moved
    unmoved: Sequence[int] = ()

    @property
    def root(self) -> int:
        """Position of the last token."""
        return len(self.ids) - 1

    def moves(self, offset: int) -> tuple[list[int], list[int]]:
        """Entries of the path in a cache, and where they belong. ``offset``: of the text's slot."""
        first = offset + self.root - len(self.unmoved)
        return [first + node for node in self.unmoved], [*range(first, offset + self.root)]


class StepInputs(NamedTuple):
    """The texts of a step, by slot, and their numbers on the device."""

    drafts: DraftInputs
    sizes: Sequence[int]  # of their depth, what each text uses
    verifiers: Mapping[int, Verifier]
    words: Tensor  # [A, (size + 1) · 3]
    states: Tensor  # [A, 5] numbers of RunStates, float64
    moves: tuple[Tensor, Tensor]  # entries of caches, and where they belong
    key: Hashable  # of a captured step: equal ones have the same operations; else None


class InputBuffer:
    """Copies the numbers of a step, to the same addresses where their count is the same.
    ``longest``: depth of a draft."""

    def __init__(self, slots: int, longest: int, device: torch.device) -> None:
        numbers = slots * (8 + len(RunState._fields) + (6 + len(Use)) * (longest + 1))
        self._buffer = PinnedBuffer(numbers, torch.long, device)

    def send(
        self,
        texts: Mapping[int, tuple[WrittenText, Inputs]],
        size: int,
        width: int,
        moves: tuple[Sequence[int], Sequence[int]],
        key: Hashable,
    ) -> StepInputs:
        """``width``: m. A captured step has positions on the device only."""
        captured = key is not None
        count, slots, (written, inputs) = len(texts), [*texts], zip(*texts.values(), strict=True)
        roots, (sizes, starts, rows) = [text.root for text in written], zip(*inputs, strict=True)
        numbers = [number for row in rows for number in (*row, *[0] * (width - len(row)))]
        states, drawn = [word for text in written for word in text.state.words], list[int]()
        for text in written:
            drawn += words(text.seed, len(text.ids) - text.first, size + 1)
        parts = (roots, starts, sizes, numbers, drawn, states, *moves)
        sent = self._buffer.send([number for part in parts for number in part])
        there = sent.split([len(part) for part in parts])
        return StepInputs(
            DraftInputs(
                size,
                Rows(slots, None if captured else roots, there[0]),
                Rows(slots, None if captured else starts, there[1]),
                there[2],
                there[3].view(count, -1),
            ),
            sizes,
            {slot: text.verifier for slot, (text, _) in texts.items()},
            there[4].view(count, -1),
            received_states(there[5]).view(count, -1),
            (there[6], there[7]),
            key,
        )
