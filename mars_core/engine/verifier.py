"""How a text is decoded: the target's part of a step."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from mars_core.decoder.positions import Start
from mars_core.models.classifier import Classifier
from mars_core.processors import Processor
from mars_core.rules.base import NO_SIGNALS, Rule, Signals
from mars_core.rules.expression import SCORE
from mars_core.sampling import Chance, Use, chance, picked
from mars_core.types import DraftMode, Parameters, Sampling
from mars_core.verification import Draft, Span, judge


class VerifierKind(NamedTuple):
    """Equal ones decide in the same way."""

    rule: str
    parameters: tuple[tuple[str, float | str], ...]
    sampling: Sampling
    mode: DraftMode
    telemetry: bool


@dataclass(frozen=True, slots=True)
class Verifier:
    """How a text is decoded: the rule and what it needs. ``parameters`` are complete and valid.
    Without ``telemetry`` only outcomes are computed."""

    kind: VerifierKind
    rule: Rule
    parameters: Parameters
    sampling: Sampling
    mode: DraftMode
    telemetry: bool
    vocabulary: int  # number of the target's ids
    processor: Processor | None
    span: Span | None  # where a parameter reads ``thinking``
    classifier: Classifier | None = None  # where the rule or a parameter reads its score

    @property
    def drafting(self) -> Hashable:
        """Equal ones, in one slot, have the same drafts."""
        return self.kind if self.processor else (self.sampling, self.mode)

    def chance(self, words: Tensor, rows: Sequence[int]) -> Chance:
        """Return the random numbers of some texts in a step; words [A, positions · 3]."""
        uses = picked(words, rows).unflatten(-1, (-1, len(Use)))
        return chance(uses, self.vocabulary, self.mode, self.sampling.temperature)

    def judge(
        self,
        raw: Tensor,
        roots: Sequence[Start],
        draft: Draft,
        chance: Chance,
        processors: Sequence[Processor],
        runs: Tensor,
        signals: Signals,
    ) -> Tensor:
        """Compute the result rows [A, M] of texts with verifiers of this kind, for
        ``verification.walk``. raw: logits [A, N + 1, V]; ``roots``: positions of the drafts' roots;
        runs: numbers of RunStates, [A, 5]; ``signals``: as below."""
        z = raw
        if processors:
            texts = enumerate(zip(processors, raw, roots, strict=True))
            z = torch.stack(
                [
                    each.apply(logits, each.rows(root, draft.of([text], draft.size, draft.depth)))
                    for text, (each, logits, root) in texts
                ]
            )
        return judge(
            z,
            draft,
            self.rule,
            self.parameters,
            self.sampling,
            self.mode,
            chance,
            self.telemetry,
            raw if processors else None,
            runs,
            self.span,
            signals,
        )

    def signals(self, features: Tensor, slots: Sequence[int], count: int) -> Signals:
        """Return what the rule or a parameter reads of the first ``count`` nodes of the texts in
        these slots, [A, count, F], each text by itself, so that the others do not change its
        rounding. features [slots, rows, …]: of the target."""
        if self.classifier is None:
            return NO_SIGNALS
        return {SCORE: torch.stack([self.classifier(features[slot, :count]) for slot in slots])}


class TextGroup(NamedTuple):
    """The texts of a step that are drafted in the same way: their rows, ascending."""

    rows: Sequence[int]
    processors: Sequence[Processor]  # one a row, or none
    chance: Chance
