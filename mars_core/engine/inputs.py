"""What a step needs from the host: the texts that are written, and their numbers, which are copied
to the device at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from mars_core.capture import PinnedBuffer
from mars_core.decoder.positions import Rows
from mars_core.drafting.base import Drafter, Request
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


class TextInputs(NamedTuple):
    """A text in a step, with its part of the drafter's ``Inputs``."""

    text: WrittenText
    size: int
    start: int
    numbers: Sequence[int]


def text_inputs(drafter: Drafter, texts: Mapping[int, WrittenText]) -> dict[int, TextInputs]:
    """Return the inputs by slot. Never drafts past the last token that may be written."""
    requests = [
        Request(slot, text.ids, min(text.end - len(text.ids) - 1, drafter.longest))
        for slot, text in texts.items()
    ]
    if not any(each.limit for each in requests):
        return {slot: TextInputs(text, 0, 0, text.ids[-1:]) for slot, text in texts.items()}
    inputs = drafter.inputs(requests)
    parts = zip(texts.items(), inputs.sizes, inputs.starts, inputs.numbers, strict=True)
    return {
        slot: TextInputs(text, size, start, numbers) for (slot, text), size, start, numbers in parts
    }


class StepInputs(NamedTuple):
    """The texts of a step, by slot, and their numbers on the device."""

    size: int  # depth of the drafts
    sizes: Sequence[int]  # of it, what each text uses
    verifiers: Mapping[int, Verifier]
    roots: Rows  # the last token of each text
    starts: Rows  # where the drafter continues
    limits: Tensor  # [A] ``sizes``
    numbers: Tensor  # [A, m]
    words: Tensor  # [A, (size + 1) · 3]
    states: Tensor  # [A, 5] numbers of RunStates, float64
    moves: tuple[Tensor, Tensor]  # entries of caches, and where they belong
    shape: tuple[int, int] | None  # size and m of a captured step


class InputBuffer:
    """Copies the numbers of a step, to the same addresses where their count is the same.
    ``longest``: depth of a draft."""

    def __init__(self, slots: int, longest: int, device: torch.device) -> None:
        numbers = slots * (8 + len(RunState._fields) + (6 + len(Use)) * (longest + 1))
        self._buffer = PinnedBuffer(numbers, torch.long, device)

    def send(
        self,
        texts: Mapping[int, TextInputs],
        size: int,
        width: int,
        moves: tuple[Sequence[int], Sequence[int]],
        *,
        captured: bool,
    ) -> StepInputs:
        """``width``: m. A captured step has positions on the device only."""
        count, inputs, slots = len(texts), texts.values(), [*texts]
        roots, starts = [each.text.root for each in inputs], [each.start for each in inputs]
        sizes, numbers, drawn = [each.size for each in inputs], list[int](), list[int]()
        states = [word for each in inputs for word in each.text.state.words]
        for text, _, _, row in inputs:
            numbers += [*row, *[0] * (width - len(row))]
            drawn += words(text.seed, len(text.ids) - text.first, size + 1)
        parts = (roots, starts, sizes, numbers, drawn, states, *moves)
        sent = self._buffer.send([number for part in parts for number in part])
        there = sent.split([len(part) for part in parts])
        return StepInputs(
            size,
            sizes,
            {slot: each.text.verifier for slot, each in texts.items()},
            Rows(slots, None if captured else roots, there[0]),
            Rows(slots, None if captured else starts, there[1]),
            there[2],
            there[3].view(count, -1),
            there[4].view(count, -1),
            received_states(there[5]).view(count, -1),
            (there[6], there[7]),
            (size, width) if captured else None,
        )
