"""Decisions on greedy and coupled drafts, chains and trees: the distribution over the drafted
children of each node, and a draw from it.

At a node with children x₁ … x_m (distinct, in the rule's order) a rule gives the shares Qᵢ = P(xᵢ);
the rest, 1 − ΣQ, goes to p without the children, to p itself, or to top-1; the distances from p
are those of ``shift``. Where it goes to p without the children, the decision is a
maximal coupling with the target's draw y: y is replaced only as often as P ≠ p requires, so
that every difference from strict is a decision of the rule. On coupled drafts every rule decides
so, except that one which emits top-1 does that; the distances are those of ``coupled``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mars_core.rules.base import Evidence, Reach, Rule, Siblings, Values, everywhere
from mars_core.sampling import draw
from mars_core.types import DraftMode
from mars_core.verification.case import Case, Decision
from mars_core.verification.children import Branches, Children
from mars_core.verification.coupled import coupled_shift
from mars_core.verification.shift import forgiven, share_shift
from mars_core.verification.state import decided_by_rule, with_ledger
from mars_core.verification.window import window_chance, window_keep, window_shares


def decide_greedy(case: Case) -> Decision:
    """Return the decision on a greedy or coupled draft, with its shift if it is ``measured``."""
    rule, draft, coupled = case.rule, case.draft, case.mode is DraftMode.COUPLED
    children = _children(case)
    strict = (draft.x == children.at_parent(case.target.target_ids)) & (children.distinct > 0)
    case = with_ledger(case, strict)
    target = case.target
    evidence = target.evidence(
        draft.x[:, None],
        None if draft.is_chain else draft.parents,
        draft.q[:, None],
        draft.distribution,
        children.sum_before(children.p)[:, None],
    )
    values = evidence.resolved(case.values)
    accept = case.accepted(evidence)[:, 0] * children.distinct
    forgiveness = forgiven(accept, children.p)
    # bool [P]: whether a protected token is drafted after the node
    guarded = None if rule.protected is None else children.any(rule.protected[draft.x])
    in_turn = rule.siblings is not Siblings.TARGET_FIRST and (rule.emits_top1 or not coupled)
    redraws = _redraws(rule, values, evidence, children) if in_turn else None
    # shares, Q [N]: the probability that each drafted token follows its parent.
    if rule.reach is Reach.WINDOW:
        keep, shares, forgiveness = _by_window(
            case, children, strict, forgiveness, int(values["window"])
        )
    else:
        missed = (1 - children.sum_over_siblings(children.p)).clamp(min=0)
        shares = children.p + missed * forgiveness * children.product_before(1 - forgiveness)
        if in_turn:
            turns = accept * children.product_before(1 - accept)
            shares = turns if guarded is None else _at(guarded, children, shares, turns)
        if rule.emits_top1 or redraws is not None:  # independent of the target's draw
            low, u = children.sum_before(shares), children.at_parent(target.uniform)
            keep = (low <= u) & (u < low + shares)
            if guarded is not None:
                keep = _at(
                    guarded, children, _coupled(children, shares, target.uniform, strict), keep
                )
        else:
            keep = _coupled(children, shares, target.uniform, strict)
    emit, single = _replacement(case, values, evidence, redraws, guarded)
    if rule.tightens and not target.greedy:
        refused = children.any(strict & (shares < children.p))
        emit = torch.where(refused, _draw_others(case), emit)
    decision = Decision(keep, strict, emit, forgiveness, {}, target.state)
    if not case.measured:
        return decision
    if coupled:
        return decision._replace(shift=coupled_shift(case, emit))
    if redraws is not None and guarded is not None:
        redraws = redraws & ~guarded
    shift = share_shift(case, emit, children, shares, single=single, to_p=redraws)
    return decision._replace(shift=shift)


def _redraws(rule: Rule, values: Values, evidence: Evidence, children: Children) -> Tensor | None:
    """Return bool [P]: whether the token after the node is drawn from p itself; true without
    children."""
    if rule.redraw is None:
        return None
    return ~children.any(~rule.redraw(evidence, values)[:, 0])


def _by_window(
    case: Case, children: Children, strict: Tensor, forgiveness: Tensor, size: int
) -> tuple[Tensor, Tensor, Tensor]:
    """keep, shares and forgiveness [N] of chains under a rule that looks ahead by ``size`` tokens."""
    shape = (case.draft.texts, -1)
    p, more = children.p.view(shape), forgiveness.view(shape)
    free = decided_by_rule(case)
    if free is not None:  # no window has another token, as strict accepts it by another draw
        unprotected = free.double().view(shape)
        more = more * unprotected * window_chance(unprotected, size)
    passes = (children.at_parent(case.target.uniform) < children.p).view(shape)
    keep = window_keep(strict.view(shape), passes, more > 0, size).flatten()
    shares = window_shares(p, more, size).flatten()
    return keep, shares, (more * window_chance(p, size)).flatten()


def _at(nodes: Tensor, children: Children, there: Tensor, elsewhere: Tensor) -> Tensor:
    """Return values of the drafted tokens after these nodes, bool [P], and after the others,
    [N]."""
    return torch.where(children.at_parent(nodes), there, elsewhere)


def _replacement(
    case: Case,
    values: Values,
    evidence: Evidence,
    redraws: Tensor | None,
    guarded: Tensor | None,
) -> tuple[Tensor, bool]:
    """Return the token after each node if no child is accepted, [P], and whether it gets all of the
    rest of P. After guarded nodes it is that of the target, or top-1."""
    rule, target = case.rule, case.target
    if rule.emits_top1:
        return target.top_ids[:, 0], True
    if redraws is not None and rule.redraw is not everywhere and not target.greedy:
        drawn = redraws if guarded is None else redraws | guarded
        return torch.where(drawn, target.target_ids, _draw_others(case)), False
    if rule.target_override is not None and target.greedy:
        best = target.target_ids.scatter(
            0, case.draft.parents, rule.target_override(evidence, values).argmax(-1)
        )
        return best if guarded is None else torch.where(guarded, target.target_ids, best), True
    return target.target_ids, False


def _draw_others(case: Case) -> Tensor:
    """Draw after each node from p without its children, [P]."""
    p = case.target.p
    others = p.index_put((case.draft.parents, case.draft.x), p.new_zeros(()))
    return draw(others, case.target.noise).ids


def _children(case: Case) -> Children:
    target, draft = case.target, case.draft
    x, parents = draft.x, draft.parents
    if draft.is_chain:
        p = target.p[: draft.size].gather(-1, x[:, None])[:, 0].double()
        return Children(draft.texts, p, torch.ones_like(p))
    p = target.p[parents, x].double()

    def pairs(values: Tensor) -> tuple[Tensor, Tensor]:
        """Return values of two nodes of one text, the row's and the column's."""
        by_text = values.view(draft.texts, -1)
        return by_text[:, :, None], by_text[:, None]

    order = torch.arange(draft.size, device=x.device)
    siblings, before = torch.eq(*pairs(parents)), torch.gt(*pairs(order))
    earlier = siblings & before
    same = siblings & torch.eq(*pairs(x))
    distinct = (~(same & before).any(-1)).double().flatten()
    if case.rule.best_first:
        z, other = pairs(target.logits[parents, x])
        earlier = siblings & ((other > z) | ((other == z) & before))
    return Branches(draft.texts, p * distinct, distinct, parents, earlier, same)


def _coupled(children: Children, shares: Tensor, uniform: Tensor, matches: Tensor) -> Tensor:
    """keep [N]: y, or instead a child with Q > p, only as often as P requires; matches: bool [N],
    which child is y."""
    more, u = shares - children.p, children.at_parent(uniform)
    surplus = more.clamp(min=0)
    drawn = children.sum_over_siblings(matches.double())
    lost = children.sum_over_siblings(
        matches * (1 - shares / children.p).clamp(min=0).nan_to_num(0.0)
    )
    outside = (
        (children.sum_over_siblings(more) / (1 - children.sum_over_siblings(children.p)))
        .nan_to_num(0.0)
        .clamp(0, 1)
    )
    yields = lost + (1 - drawn) * outside
    goal = u / yields * children.sum_over_siblings(surplus)
    low = children.sum_before(surplus)
    return torch.where(u < yields, (low <= goal) & (goal < low + surplus), matches)
