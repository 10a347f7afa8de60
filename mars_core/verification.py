"""Applies a rule to a drafted tree: draw first, forgive second. Needs only torch.

``judge`` (greedy drafts, any tree) and ``judge_sampled`` (sampled drafts, chains) work on the device and give one row of
numbers a node: the one transfer of a step. ``walk`` follows the kept path through those rows on the host.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from mars_core.rules.base import Emits, Evidence, Rule
from mars_core.sampling import Use, draw, residual, shown_law, target_law
from mars_core.tree import Tree
from mars_core.types import Sampling

TOP = 5  # alternatives kept for each node


@dataclass(frozen=True, slots=True)
class Draft:
    """What a drafter proposes. ``ids`` [N + 1] with the last committed token first; q is the drafter's probability of each
    drafted token [N]; ``law`` [N, V] only for sampled drafts: the drafter's whole law at each of them."""

    tree: Tree
    ids: Tensor
    q: Tensor
    law: Tensor | None = None


class Node(NamedTuple):
    """One node of the tree after the verdict. As a drafted token it was judged by its parent's logits; the rest is its own."""

    id: float
    keep: float  # 1: the rule keeps this drafted token after its parent
    strict: float  # 1: so does strict, with the same u
    forgiveness: float
    p: float  # of this token under the parent's law
    q: float
    rank: float  # of this token among the parent's logits, 1 = largest
    own: float  # what the target draws after this node
    emit: float  # what the run emits if the step ends here
    own_p: float
    emit_p: float
    emit_rank: float
    u: float  # the uniform of the decision after this node: draw (greedy) or accept (sampled)
    edge: float  # distance of the drawing uniform to the nearer end of own's interval; at temperature 0 z1 - z2
    entropy: float
    tv: float  # between the law of the token after this node and p
    top_ids: tuple[float, ...]
    top_z: tuple[float, ...]
    top_p: tuple[float, ...]  # of the shown law


class Verdict(NamedTuple):
    """The kept path: node numbers from the root (0) on; the step emits the tokens of path[1:] and then ``emit`` of its end."""

    nodes: tuple[Node, ...]
    path: tuple[int, ...]
    children: tuple[tuple[int, ...], ...]


def judge(
    logits: Tensor, draft: Draft, rule: Rule, parameters: Mapping[str, float], sampling: Sampling, u: Tensor
) -> Tensor:
    """Rows [N + 1, columns] for greedy drafts. logits [N + 1, V] float32; u [depth + 1, 3] from this step's position on.

    A forgiveness strictly between 0 and 1 needs an only child; siblings are distinct.
    """
    p = target_law(logits, sampling)
    top_z, top_ids = logits.topk(min(TOP, logits.shape[-1]))
    parents, depths = _topology(draft.tree, logits.device)
    u_draw = u[depths, Use.DRAW]
    own, edge = draw(p, u_draw)
    x = draft.ids[1:]
    evidence = Evidence(logits[parents], p[parents], x[:, None], top_z[parents], top_ids[parents])
    forgiveness = rule.forgive(evidence, parameters)[:, 0]
    emit = top_ids[:, 0] if rule.emits is Emits.TOP1 else own
    strict = x == own[parents]
    keep = (x == emit[parents]) | (u[depths, Use.ACCEPT][parents] < forgiveness)
    p_x = evidence.p.gather(-1, x[:, None])[:, 0]
    if rule.emits is Emits.TOP1:
        tv = 1 - p.gather(-1, emit[:, None])[:, 0].scatter(0, parents[keep], p_x[keep])
    else:
        tv = forgiving_tv(p_x, forgiveness, parents)
    return _rows(logits, p, draft, sampling, keep, strict, forgiveness, own, emit, u_draw, edge, tv, top_z, top_ids)


def forgiving_tv(p_x: Tensor, forgiveness: Tensor, parents: Tensor) -> Tensor:
    """TV(P, p) after each node, [N + 1]: (1 − Σp)·(1 − Π(1 − f)) over its (distinct) children; with one child f·(1 − p(x)).

    p_x, forgiveness, parents: [N], one entry a drafted token.
    """
    nodes = len(parents) + 1
    unforgiven = p_x.new_ones(nodes).scatter_reduce(0, parents, 1 - forgiveness, "prod")
    missed = (1 - p_x.new_zeros(nodes).index_add(0, parents, p_x)).clamp(min=0)
    return missed * (1 - unforgiven)


def judge_sampled(
    logits: Tensor, draft: Draft, rule: Rule, parameters: Mapping[str, float], sampling: Sampling, u: Tensor
) -> Tensor:
    """Rows [N + 1, columns] for a sampled chain: keep x iff u < a(x); the first rejected place is redrawn from R."""
    assert draft.law is not None and draft.tree.is_chain
    count = draft.tree.size - 1
    p = target_law(logits, sampling)
    top_z, top_ids = logits.topk(min(TOP, logits.shape[-1]))
    everything = torch.arange(p.shape[-1], device=p.device).expand(count, -1)
    evidence = Evidence(logits[:count], _exact(p[:count]), everything, top_z[:count], top_ids[:count])
    padding = (0, p.shape[-1] - draft.law.shape[-1])  # ids that only the target knows
    q = _exact(torch.nn.functional.pad(draft.law, padding))
    accept, correction = sampled_pair(evidence, q, rule, parameters)
    x = draft.ids[1:, None]
    own, edge = draw(p, u[:, Use.DRAW])
    emit, _ = draw(torch.cat([correction, p[count:].double()]), u[:, Use.DRAW])
    u_accept = u[:count, Use.ACCEPT]
    strict = u_accept < (evidence.p.gather(-1, x) / q.gather(-1, x))[:, 0]
    keep = u_accept < accept.gather(-1, x)[:, 0]
    tv = u.new_zeros(count + 1)
    tv[:count] = 0.5 * (sampled_law(q, accept, correction) - evidence.p).abs().sum(-1)
    forgiveness = rule.forgive(evidence, parameters).gather(-1, x)[:, 0]
    u_shown = torch.cat([u_accept, u[count:, Use.DRAW]])
    return _rows(logits, p, draft, sampling, keep, strict, forgiveness, own, emit, u_shown, edge, tv, top_z, top_ids)


def _exact(law: Tensor) -> Tensor:
    """float64, summing to 1: the meter then reads 0 where the law is p, not the rounding of a softmax."""
    law = law.double()
    return law / law.sum(-1, keepdim=True)


def sampled_pair(evidence: Evidence, q: Tensor, rule: Rule, parameters: Mapping[str, float]) -> tuple[Tensor, Tensor]:
    """(a, R), both [E, V], for candidates = the whole vocabulary.

    a is strict's min(1, p/q), raised where the rule forgives; R is strict's residual, and p at nodes where the rule forgives
    anything (as the MARS release does). A rule that emits top-1 keeps only what it forgives or top-1 itself.
    """
    forgiveness = rule.forgive(evidence, parameters)
    if rule.emits is Emits.TOP1:
        return torch.maximum(forgiveness, evidence.is_top1.to(q.dtype)), evidence.is_top1.to(q.dtype)
    strict = torch.where(q > 0, evidence.p / q.clamp(min=torch.finfo(q.dtype).tiny), 1.0).clamp(max=1)
    relaxed_here = (forgiveness > 0).any(-1, keepdim=True)
    accept = torch.maximum(strict, forgiveness)
    return accept, torch.where(relaxed_here, evidence.p, residual(evidence.p, q))


def sampled_law(q: Tensor, accept: Tensor, correction: Tensor) -> Tensor:
    """P = q·a + (1 − Σ q·a)·R, [E, V]: the exact law of the token emitted at each place of a sampled chain."""
    kept = q * accept
    return kept + (1 - kept.sum(-1, keepdim=True)) * correction


def _rows(
    logits: Tensor, p: Tensor, draft: Draft, sampling: Sampling, keep: Tensor, strict: Tensor, forgiveness: Tensor,
    own: Tensor, emit: Tensor, u: Tensor, edge: Tensor, tv: Tensor, top_z: Tensor, top_ids: Tensor,
) -> Tensor:  # fmt: skip
    parents, _ = _topology(draft.tree, logits.device)
    x = draft.ids[1:, None]
    shown = shown_law(logits, p, sampling)
    if sampling.temperature == 0:
        edge = top_z[:, 0] - top_z[:, 1]

    def of_root(values: Tensor, root: float) -> Tensor:
        return torch.cat([values.new_full((1,), root, dtype=torch.float64), values.double()])

    columns = [
        draft.ids, of_root(keep, 1), of_root(strict, 1), of_root(forgiveness, 0),
        of_root(p[parents].gather(-1, x)[:, 0], 1), of_root(draft.q, 1), of_root(_rank(logits[parents], x), 1),
        own, emit, p.gather(-1, own[:, None])[:, 0], p.gather(-1, emit[:, None])[:, 0], _rank(logits, emit[:, None]),
        u, edge, -torch.xlogy(shown, shown).sum(-1), tv,
    ]  # fmt: skip
    wide = (top_ids, top_z, shown.gather(-1, top_ids))
    return torch.cat([torch.stack([c.double() for c in columns], -1), *(w.double() for w in wide)], -1)


@cache
def _topology(tree: Tree, device: torch.device) -> tuple[Tensor, Tensor]:
    """Parents [N] and depths [N + 1] on the device."""
    return torch.tensor(tree.parents, dtype=torch.long, device=device), torch.tensor(tree.depths, device=device)


def _rank(logits: Tensor, ids: Tensor) -> Tensor:
    return 1 + (logits > logits.gather(-1, ids)).sum(-1)


def walk(rows: list[list[float]], tree: Tree) -> Verdict:
    """The kept path: from each node to the child that strict keeps, else to the first kept one in draft order."""
    fixed = len(Node._fields) - 3
    width = (len(rows[0]) - fixed) // 3
    nodes = tuple(
        Node._make([*row[:fixed], *(tuple(row[at : at + width]) for at in range(fixed, len(row), width))])
        for row in rows
    )
    children: list[list[int]] = [[] for _ in nodes]
    for child, parent in enumerate(tree.parents, start=1):
        children[parent].append(child)
    path = [0]
    while kept := [child for child in children[path[-1]] if nodes[child].keep]:
        path.append(max(kept, key=lambda child: nodes[child].id == nodes[path[-1]].emit))
    return Verdict(nodes, tuple(path), tuple(map(tuple, children)))
