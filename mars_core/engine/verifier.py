"""The target's side of a step: one pass over the draft, and what the rule says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from mars_core.decoder import ModelCache
from mars_core.decoder.positions import Start
from mars_core.rules.base import Rule
from mars_core.tree import ancestors
from mars_core.types import DraftMode, Sampling
from mars_core.verification import Draft, certain, chain_draft, judge


@dataclass(frozen=True, slots=True)
class Verifier:
    """Of one engine. ``parameters`` are complete and valid. Without ``meter`` nothing is measured but outcomes."""

    target: ModelCache
    rule: Rule
    parameters: Mapping[str, float]
    sampling: Sampling
    mode: DraftMode
    meter: bool

    def verify(self, start: Start, draft: Draft, u: Tensor) -> Tensor:
        """The answer of a step, as ``verification.walk`` reads it. ``start``: position of the draft's root; u [draft.depth + 1, 3]."""
        if draft.is_chain:
            logits = self.target.forward(draft.ids, start)
        else:
            sees = ancestors(draft.parents, draft.depth)
            logits = self.target.forward_tree(draft.ids, start, draft.depths, sees)
        return judge(logits, draft, self.rule, self.parameters, self.sampling, self.mode, u, self.meter)


def root_alone(root: Tensor) -> Draft:
    """The tree that is only its root [1], at the address of ``root``."""
    return chain_draft(root, certain(0, root.device))
