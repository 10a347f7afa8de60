"""The law of every rule, by enumeration of what the code does: lossless where it must be, and the exact meter of what is not."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from mars_core.rules import RULES, Evidence
from mars_core.sampling import draw, residual, target_law
from mars_core.tree import Tree, chain
from mars_core.types import Sampling
from mars_core.verification import Draft, Verdict, judge, judge_sampled, sampled_law, sampled_pair, walk

V = 6
SAMPLINGS = [Sampling(0.0), Sampling(1.0), Sampling(0.7, top_k=3), Sampling(1.3, top_p=0.8)]
TREES = [chain(1), chain(3), Tree((0, 0, 0)), Tree((0, 0, 1, 1, 2, 4))]


def logits_for(tree: Tree, seed: int) -> Tensor:
    return torch.randn(tree.size, V, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 2


def draft_for(tree: Tree, seed: int) -> Draft:
    """Siblings are distinct."""
    source = torch.Generator().manual_seed(seed)
    ids = [0]
    for node in range(tree.size):
        children = sum(parent == node for parent in tree.parents)
        ids += torch.randperm(V, generator=source)[:children].tolist() if children else []
    order = sorted(range(1, tree.size), key=lambda child: tree.parents[child - 1])
    placed = [0] * tree.size
    for child, token in zip(order, ids[1:], strict=True):
        placed[child] = token
    return Draft(tree, torch.tensor(placed), torch.ones(tree.size - 1))


def decide(logits: Tensor, draft: Draft, rule: str, sampling: Sampling, u: Tensor) -> Verdict:
    rows = judge(logits, draft, RULES[rule], RULES[rule].values({}), sampling, u)
    return walk(rows.tolist(), draft.tree)


def middle_of(p: Tensor, token: int) -> float:
    """A uniform with which ``token`` is drawn from p [V]."""
    cdf = p.cumsum(-1)
    return float(cdf[token] - p[token] / 2)


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("tree", TREES, ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_meter_is_the_distance_of_the_enumerated_law_from_p(
    sampling: Sampling, rule: str, tree: Tree, seed: int
) -> None:
    """After the root every possible own token is tried; what is emitted, weighted by p, is the law."""
    logits, draft = logits_for(tree, seed), draft_for(tree, seed)
    p = target_law(logits, sampling)[0]
    law = torch.zeros(V, dtype=torch.float64)
    for own in range(V):
        if p[own] == 0:
            continue
        u = torch.full((max(tree.depths) + 1, 3), 0.5, dtype=torch.float64)
        u[0, 0] = middle_of(p, own)
        verdict = decide(logits, draft, rule, sampling, u)
        first = verdict.nodes[verdict.path[1]].id if len(verdict.path) > 1 else verdict.nodes[0].emit
        assert verdict.nodes[0].own == own
        law[int(first)] += p[own]
    assert verdict.nodes[0].tv == pytest.approx(float((law - p).abs().sum() / 2), abs=1e-12)
    if rule == "strict":
        assert torch.allclose(law, p, atol=1e-12)


@pytest.mark.parametrize("tree", TREES, ids=str)
@pytest.mark.parametrize("seed", range(10))
def test_strict_follows_the_tokens_that_the_target_draws(tree: Tree, seed: int) -> None:
    logits, draft = logits_for(tree, seed), draft_for(tree, seed)
    u = torch.rand(max(tree.depths) + 1, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    verdict = decide(logits, draft, "strict", Sampling(1.0), u)
    own, _ = draw(target_law(logits, Sampling(1.0)), u[torch.tensor(tree.depths), 0])
    at = 0
    for child in verdict.path[1:]:
        assert tree.parents[child - 1] == at
        assert draft.ids[child] == own[at]
        at = child
    assert all(draft.ids[child] != own[at] for child in verdict.children[at])
    assert verdict.nodes[at].emit == own[at]


def test_a_child_that_the_target_draws_goes_before_a_forgiven_one() -> None:
    logits = torch.tensor([[5.0, 4.9, 0.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]], dtype=torch.float64)
    draft = Draft(Tree((0, 0)), torch.tensor([2, 0, 1]), torch.ones(2))
    p = target_law(logits, Sampling(1.0))[0]
    u = torch.full((2, 3), 0.5, dtype=torch.float64)
    u[0, 0] = middle_of(p, 1)
    assert decide(logits, draft, "mars", Sampling(1.0), u).path == (0, 2)
    u[0, 0] = middle_of(p, 2)
    assert decide(logits, draft, "mars", Sampling(1.0), u).path == (0, 1)


def test_algorithm_1_says_the_best_token_whatever_is_drawn() -> None:
    logits = torch.tensor([[5.0, 3.0, 4.0], [1.0, 2.0, 0.0]], dtype=torch.float64)
    u = torch.full((2, 3), 0.999, dtype=torch.float64)
    verdict = decide(logits, Draft(chain(1), torch.tensor([0, 1]), torch.ones(1)), "mars-algorithm1", Sampling(1.0), u)
    assert (verdict.path, verdict.nodes[0].own, verdict.nodes[0].emit) == ((0,), 2, 0)
    assert verdict.nodes[0].tv == pytest.approx(1 - float(target_law(logits, Sampling(1.0))[0, 0]))


def test_empty_draft_draws_from_p() -> None:
    logits = torch.tensor([[0.0, 5.0, 1.0]], dtype=torch.float64)
    draft = Draft(chain(0), torch.tensor([1]), torch.ones(0))
    verdict = decide(logits, draft, "mars", Sampling(0.0), torch.full((1, 3), 0.5, dtype=torch.float64))
    assert (verdict.path, verdict.nodes[0].emit, verdict.nodes[0].tv) == ((0,), 1, 0)


def laws(rows: int, seed: int, top_k: int, top_p: float) -> tuple[Tensor, Tensor, Evidence]:
    source = torch.Generator().manual_seed(seed)
    z = torch.randn(rows, 40, generator=source, dtype=torch.float64) * 2 + 3
    sampling = Sampling(1.0, top_k, top_p)
    p = target_law(z, sampling)
    q = target_law(z + torch.randn(rows, 40, generator=source, dtype=torch.float64), sampling)
    top_z, top_ids = z.topk(2)
    return p, q, Evidence(z, p, torch.arange(40).expand(rows, -1), top_z, top_ids)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("top_k", "top_p"), [(0, 1.0), (5, 1.0), (0, 0.7), (8, 0.9)])
def test_strict_law_of_sampled_drafts_is_p(seed: int, top_k: int, top_p: float) -> None:
    p, q, evidence = laws(64, seed, top_k, top_p)
    accept, correction = sampled_pair(evidence, q, RULES["strict"], {})
    assert torch.allclose(accept, torch.where(q > 0, (p / q).clamp(max=1), 1.0))
    assert torch.allclose(correction, residual(p, q))
    assert (sampled_law(q, accept, correction) - p).abs().max() < 1e-6


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
def test_meter_of_sampled_drafts_is_the_distance_of_the_enumerated_law(rule: str, sampling: Sampling) -> None:
    """A chain of equal nodes is a grid over both uniforms; every drafted token x, weighted by q, is put to it."""
    grid = 50
    logits = logits_for(chain(1), 11)[:1]
    p = target_law(logits, sampling)[0]
    q = target_law(logits_for(chain(1), 12)[:1], sampling)
    ticks = (torch.arange(grid, dtype=torch.float64) + 0.5) / grid
    u = torch.stack([ticks.repeat(grid), ticks.repeat_interleave(grid), ticks.repeat(grid)], -1)
    u = torch.cat([u, u[:1]])
    law = torch.zeros(V, dtype=torch.float64)
    for x in (x for x in range(V) if q[0, x] > 0):
        ids = torch.full((grid**2 + 1,), x)
        draft = Draft(chain(grid**2), ids, q[:, x].expand(grid**2), q.expand(grid**2, -1))
        rows = judge_sampled(logits.expand(len(ids), -1), draft, RULES[rule], RULES[rule].values({}), sampling, u)
        nodes = walk(rows.tolist(), draft.tree).nodes
        for before, after in pairwise(nodes):
            law[x if after.keep else int(before.emit)] += q[0, x] / grid**2
    assert nodes[0].tv == pytest.approx(float((law - p).abs().sum() / 2), abs=0.05)
    if rule == "strict":
        assert nodes[0].tv == pytest.approx(0, abs=1e-12)


def test_rows_carry_what_the_trace_needs() -> None:
    logits = torch.tensor([[1.0, 3.0, 2.0], [0.0, 1.0, 0.0]], dtype=torch.float64)
    draft = Draft(chain(1), torch.tensor([0, 2]), torch.tensor([0.4], dtype=torch.float64))
    u = torch.full((2, 3), 0.5, dtype=torch.float64)
    verdict = decide(logits, draft, "strict", Sampling(1.0), u)
    p = logits[0].softmax(-1)
    root, drafted = verdict.nodes
    assert (root.top_ids, root.top_z) == ((1, 2, 0), (3, 2, 1))
    assert root.entropy == pytest.approx(float(-(p * p.log()).sum()))
    assert (drafted.p, drafted.q, drafted.rank) == (pytest.approx(float(p[2])), 0.4, 2)
    assert (root.own, root.emit_rank, root.emit_p) == (1, 1, pytest.approx(float(p[1])))
    assert (drafted.keep, drafted.strict, math.isfinite(drafted.edge)) == (0, 0, True)
