"""The state of a run: what its rule may know of the text before a position.

The host has a ``RunState`` per text and updates it from every verdict; the device gets its numbers
with the inputs of a step, and computes from them the ``State`` at every node of the draft.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from mars_core.rules.base import WHERE
from mars_core.rules.evidence import State
from mars_core.rules.expression import SCORE, Expression, Span, expressions
from mars_core.sampling import row_sums
from mars_core.types import numbers
from mars_core.verification.case import Case, TargetValues, Terms
from mars_core.verification.draft import Draft, FlatDrafts, ancestors, chain, in_order
from mars_core.verification.verdict import StepVerdict


class RunState(NamedTuple):
    """Of a text before a step. ``tv`` and ``regret``: sums over its output; nan where unknown.
    ``lot``: of ``Rule.lot``, else 0."""

    position: int = 0  # of the next output token
    thinking: bool = False
    tv: float = 0.0
    regret: float = 0.0
    lot: float = 0.0

    def planned(self, terms: Terms) -> RunState:
        """Return it with the places of the rule, which charges 1 for every rejection."""
        if terms.rule.lot is None:
            return self
        return self._replace(lot=terms.rule.lot(numbers(terms.parameters), int(self.regret)))

    def after(self, verdict: StepVerdict, emitted: Iterable[int], terms: Terms) -> RunState:
        """Return it after a step that has emitted these tokens."""
        nodes, path, ids = verdict.nodes, verdict.path, [*emitted]
        tv, span = nodes.column("tv"), terms.span
        return RunState(
            self.position + len(ids),
            span is not None and span.inside(ids, self.thinking),
            self.tv + sum(tv[node] for node in path),
            self.regret + nodes.charge(path, rejected=terms.rule.lot is not None),
        ).planned(terms)

    @property
    def words(self) -> tuple[int, ...]:
        """The bits of its numbers as float64, to be sent among integers."""
        return struct.unpack(f"{len(self)}q", struct.pack(f"{len(self)}d", *self))


def received_states(words: Tensor) -> Tensor:
    """Return the numbers of ``RunState.words``, float64 in the same memory."""
    return words.view(torch.float64)


def state_of(terms: Terms, draft: Draft, target: TargetValues, runs: Tensor) -> State | None:
    """Return the State at every node, if the rule or a parameter reads it. runs: numbers of
    RunStates, float64 [A, 5]."""
    dynamic = expressions(terms.parameters)
    if not dynamic and terms.rule.regret_cost is None:
        return None
    shape = len(runs), draft.size + 1
    runs = runs[:, None].expand(*shape, -1)
    position, thinking, tv, regret, lot = in_order(runs)[:, :, None].unbind(1)
    depths = in_order(draft.depths.expand(shape))[:, None].double()
    state = State(
        position + depths,
        thinking if terms.span is None else _phases(draft, runs[..., 1], terms.span),
        tv,
        regret,
        torch.zeros_like(regret),
        lot,
        draft.depth - depths,
        None,
        {},
    )
    known = {each.name: each for each in terms.rule.settable}
    parameters = {
        name: known[name].within(expression.value(_variables(target, state, expression)))
        for name, expression in dynamic.items()
    }
    return state._replace(parameters=parameters)


def with_ledger(case: Case, strict: Tensor) -> Case:
    """Return the case with what the drafted tokens before each node have charged, if the rule has a
    ledger: those that the rule may decide and strict, bool [N], does not keep. In a tree a node
    charges once, and only where strict keeps none of its children."""
    target, draft, state = case.target, case.draft, case.target.state
    if case.rule.regret_cost is None or state is None:
        return case
    at = None if draft.is_chain else draft.parents
    evidence = target.evidence(draft.x[:, None], at, draft.q[:, None])
    charge = case.rule.regret_cost(evidence, evidence.resolved(case.values)).double()
    if (free := decided_by_rule(case)) is not None:
        charge = charge * free[:, None]
    before = _before_in_chain if draft.is_chain else _before_in_tree
    missed = (~strict).double()
    regret = state.regret + before(draft, charge[:, 0] * missed, strict)
    relaxed = before(draft, (charge[:, 0] > 0) * missed, strict)
    state = state._replace(regret=regret, relaxed=relaxed, charge=charge)
    return case._replace(target=target._replace(state=state))


def decided_by_rule(case: Case) -> Tensor | None:
    """Return bool [N]: the drafted tokens that are not left to strict; None: all."""
    protected, draft, state = case.rule.protected, case.draft, case.target.state
    marks = [] if protected is None else [~protected[draft.x]]
    if state is not None and WHERE.name in state.parameters:
        marks.append(state.parameters[WHERE.name][draft.parents, 0] > 0)
    return torch.stack(marks).all(0) if marks else None


def _before_in_chain(draft: FlatDrafts, charge: Tensor, _strict: Tensor) -> Tensor:
    """Sums over the drafted tokens of the text before each node, [N] → [P, 1]."""
    sums = charge.view(draft.texts, -1).cumsum(-1)
    return in_order(torch.nn.functional.pad(sums, (1, 0)))[:, None]


def _before_in_tree(draft: FlatDrafts, charge: Tensor, strict: Tensor) -> Tensor:
    """Sums over the nodes above each one, of the largest charge of their children, [N] → [P, 1];
    nothing of a node whose children strict, bool [N], keeps one of."""
    parents = draft.parents.view(draft.texts, -1)
    parents = parents - chain(draft.texts, parents.device)[0][:, None] * parents.shape[1]
    shape = draft.texts, parents.shape[1] + 1
    most = charge.new_zeros(shape).scatter_reduce_(1, parents, charge.view(parents.shape), "amax")
    kept = charge.new_zeros(shape).scatter_reduce_(
        1, parents, strict.double().view(parents.shape), "amax"
    )
    above = ancestors(parents, parents.shape[1]).double()
    events = most * (1 - kept)
    return in_order((above @ events[..., None])[..., 0] - events)[:, None]


def _variables(target: TargetValues, state: State, expression: Expression) -> dict[str, Tensor]:
    """Return [P, 1] float64, those that it reads, and the position."""
    p = target.soft.double()
    known = {
        "entropy": lambda: -row_sums(torch.xlogy(p, p))[:, None],
        "p1": lambda: p.amax(-1, keepdim=True),
        "gap": lambda: (target.top_z[:, :1] - target.top_z[:, 1:2]).double(),
        "thinking": lambda: state.thinking,
        "tv": lambda: state.tv,
        SCORE: lambda: (
            torch.full_like(state.tv, torch.nan)
            if SCORE not in target.signals
            else in_order(target.signals[SCORE]).double()
        ),
    }
    return {
        "position": state.position,
        **{name: known[name]() for name in expression.names - {"position"}},
    }


def _phases(draft: Draft, before: Tensor, span: Span) -> Tensor:
    """Return whether the text goes on within the phase after each node, [P, 1]; before: after the
    root, [A, N + 1]."""
    ids, parents = draft.ids[..., 1:], draft.parents.expand(len(before), -1)
    begins, ends = (ids == each for each in span)
    phases = before
    for _ in range(draft.depth):
        after = torch.where(begins, 1.0, torch.where(ends, 0.0, phases.gather(-1, parents)))
        phases = torch.cat([before[:, :1], after], -1)
    return in_order(phases)[:, None]
