"""How a text is decoded: the target's part of a step."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from mars_core.engine.processors import Processor
from mars_core.models.classifier import Classifier
from mars_core.rules.base import Rule
from mars_core.sampling import Chance, Use, chance
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

    def chance(self, words: Tensor) -> Chance:
        """The random numbers of a step; words [positions · 3]."""
        return chance(
            words.view(-1, len(Use)), self.vocabulary, self.mode, self.sampling.temperature
        )

    def judge(
        self,
        raw: Tensor,
        root: int | Tensor,
        draft: Draft,
        chance: Chance,
        run: Tensor,
        features: Tensor,
    ) -> Tensor:
        """The result row of a step, for ``verification.walk``. raw: logits [N + 1, V]; ``root``:
        position of the draft's root; run: numbers of a RunState; features [N + 1, …]: those of the
        target, which end with the last hidden state."""
        processor, z = self.processor, raw
        if processor is not None:
            z = processor.apply(raw, processor.rows(root, draft))
        return judge(
            z,
            draft,
            self.rule,
            self.parameters,
            self.sampling,
            self.mode,
            chance.first(draft.depth + 1),
            self.telemetry,
            None if processor is None else raw,
            run,
            self.span,
            None if self.classifier is None else self.classifier(features),
        )
