"""How a text is decoded: the target's part of a step."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from mars_core.decoder.positions import Rows
from mars_core.drafting.base import TextGroup
from mars_core.processors import Processor
from mars_core.sampling import Chance, Use, chance, picked
from mars_core.verification import Draft, Known, Terms, decide

# [N + 1, F] features of the target at the nodes of a text → [N + 1, …]
Producer = Callable[[Tensor], Tensor]


class TargetPass(NamedTuple):
    """What the target has read of the texts of a step."""

    draft: Draft
    roots: Rows  # of the drafts
    states: Tensor  # [A, 5] numbers of RunStates
    logits: Tensor  # [A, N + 1, V]
    features: Tensor  # [slots, rows, F]


@dataclass(frozen=True, slots=True)
class Verifier:
    """How a text is decoded; those of equal ``kind`` decide in the same way. ``producers``: of the
    signals that its rule or a parameter reads, by name."""

    kind: Hashable
    terms: Terms
    vocabulary: int  # number of the target's ids
    processor: Processor | None
    producers: Mapping[str, Producer]

    @property
    def drafting(self) -> Hashable:
        """Equal ones, in one slot, have the same drafts."""
        return self.kind if self.processor else (self.terms.sampling, self.terms.mode)

    def chance(self, words: Tensor, rows: Sequence[int]) -> Chance:
        """Return the random numbers of some texts in a step; words [A, positions · 3]."""
        uses = picked(words, rows).unflatten(-1, (-1, len(Use)))
        return chance(uses, self.vocabulary, self.terms.mode, self.terms.sampling.temperature)

    def rows(
        self, read: TargetPass, rows: Sequence[int], shape: tuple[int, int], group: TextGroup
    ) -> Tensor:
        """Compute the result rows [len(rows), M], for ``verification.walk``, of texts of the group
        with verifiers of this kind. ``shape``: nodes and depth of their drafts."""
        draft, at = read.draft.of(rows, *shape), [group.rows.index(row) for row in rows]
        count, raw, z = draft.size + 1, None, picked(read.logits, rows)[:, : draft.size + 1]
        if group.processors:
            raw, texts = z, []
            for text, (row, member) in enumerate(zip(rows, at, strict=True)):
                own, each = draft.of([text], *shape), group.processors[member]
                texts.append(each.apply(raw[text], each.rows(read.roots.start(row), own)))
            z = torch.stack(texts)
        # each text by itself, so that the others do not change its rounding
        slots = [read.roots.slots[row] for row in rows]
        signals = {
            name: torch.stack([producer(read.features[slot, :count]) for slot in slots])
            for name, producer in self.producers.items()
        }
        states = picked(read.states, rows)
        return decide(self.terms, draft, Known(z, group.chance.of(at), raw, states, signals))
