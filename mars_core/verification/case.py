"""Input and output of a decision: how texts are decided and what is known of their drafts, the
target's values at the nodes, the case of a rule, and its decision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from mars_core.rules.base import Rule
from mars_core.rules.evidence import NO_SIGNALS, Evidence, Signals, State
from mars_core.rules.expression import Span
from mars_core.sampling import Chance, Draws
from mars_core.types import DraftMode, Parameters, Sampling
from mars_core.verification.draft import FlatDrafts


class Terms(NamedTuple):
    """How texts are decided. ``parameters`` are complete and valid; without ``telemetry`` only
    outcomes are computed."""

    rule: Rule
    parameters: Parameters
    sampling: Sampling
    mode: DraftMode
    telemetry: bool = True
    span: Span | None = None  # where a parameter reads ``thinking``


class Known(NamedTuple):
    """What a step knows of one draft, or of A drafts of one shape: then each tensor has a dimension
    [A, …] before."""

    logits: Tensor  # [N + 1, V] float32, after every node
    chance: Chance  # of draft.depth + 1 positions or more, from this step's on
    raw: Tensor | None = None  # [N + 1, V] before processors, where there are some
    run: Tensor | None = None  # numbers of a RunState; None: of the beginning
    signals: Signals = NO_SIGNALS  # [N + 1, …] of each node


class TargetValues(NamedTuple):
    """The target's values at each of the P nodes of ``FlatDrafts``."""

    logits: Tensor  # [P, V] float32, after penalties and biases
    p: Tensor  # [P, V]; one-hot at temperature 0
    soft: Tensor  # [P, V] p; softmax(z) at temperature 0
    top_z: Tensor  # [P, T] the largest logits, descending
    top_ids: Tensor  # [P, T]
    target_ids: Tensor  # [P] the target's draw after each node
    drawn: Draws | None  # the draws; None at temperature 0, where ``target_ids`` is the argmax
    uniform: Tensor  # [P] the uniform that decides about the token after each node
    noise: Tensor  # [P, V] with which that token is drawn; [P, 0] at temperature 0
    signals: Signals  # [A, n + 1, …] of each node
    state: State | None = None  # where the rule or a parameter reads it

    @property
    def greedy(self) -> bool:
        """Temperature 0."""
        return self.drawn is None

    def p_of(self, draft: FlatDrafts, emit: Tensor) -> Tensor:
        """Return p of the drafted tokens and of those emitted after the nodes, float64 [N + P]."""
        return self.p.take(draft.tokens(emit, self.p.shape[-1])).double()

    def evidence(
        self,
        x: Tensor,
        at: Tensor | None,
        confidence: Tensor,
        drafter: Tensor | None = None,
        tried: Tensor | None = None,
    ) -> Evidence:
        """Candidates x [E, C] of greedy drafts, with the fields of Evidence."""
        return Evidence(
            logits=self.logits,
            distribution=self.p,
            soft=self.soft,
            drafter=drafter,
            top_z=self.top_z,
            top_ids=self.top_ids,
            at=at,
            x=x,
            q=self.p.new_ones(()).expand(x.shape),
            confidence=confidence,
            tried=self.p.new_zeros(len(x), 1) if tried is None else tried,
            greedy=self.greedy,
            state=self.state,
            signals={name: each[:, 1:].flatten(0, 1) for name, each in self.signals.items()},
        )


class Case(NamedTuple):
    """Drafts that a rule decides."""

    target: TargetValues
    draft: FlatDrafts
    rule: Rule
    values: Mapping[str, float]  # its parameters, without expressions
    mode: DraftMode  # GREEDY also without noise, and for drafters without probabilities
    measured: bool  # whether the distances from p are computed

    def accepted(self, evidence: Evidence) -> Tensor:
        """Return the probability with which the rule keeps each candidate, float64 [E, C]."""
        accept = self.rule.accept(evidence, evidence.resolved(self.values))
        return accept.double().clamp(0, 1)


class Decision(NamedTuple):
    """A rule's decision on a draft."""

    keep: Tensor  # bool [N]
    strict: Tensor  # bool [N]
    emit: Tensor  # [N + 1]
    forgiveness: Tensor  # [N]
    shift: Mapping[str, Tensor]  # the columns of ``shift``; none unless the case is ``measured``
    state: State | None  # of the nodes, with the ledger

    def only(self, inside: Tensor, parents: Tensor, strict: Decision) -> Decision:
        """Return this decision after the nodes that are ``inside``, bool [N + 1], strict's after
        others."""
        drafted = inside[parents]
        tokens = torch.cat([drafted, inside])

        def chosen(one: Tensor, other: Tensor) -> Tensor:
            marks = {len(each): each for each in (drafted, inside, tokens)}
            return torch.where(marks[len(one)], one, other)

        return Decision(
            chosen(self.keep, strict.keep),
            self.strict,
            chosen(self.emit, strict.emit),
            self.forgiveness * drafted,
            {name: chosen(column, strict.shift[name]) for name, column in self.shift.items()},
            self.state,
        )
