"""Coupled drafts: the joint distribution of the draft and the target's token, what a rule accepts
of it, and TV and KL of the emitted token."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from mars_core.rules import RULES, Reach
from mars_core.sampling import Chance, draw, noise, target_distribution
from mars_core.types import DraftMode, Sampling, ShiftKind
from mars_core.verification import Draft, chain_draft, walk
from mars_core.verification.coupled import CELLS, _moved, joint_integral
from tests.unit.mars_core.published import after_node
from tests.unit.mars_core.test_verification import (
    TREES,
    V,
    case,
    chance,
    column,
    columns,
    decide,
    divergence,
    drawn_case,
    every_draw,
    every_sampling,
    keys,
    largest_ratio,
    takes,
    total_variation,
)

ERROR = 6 / CELLS**2  # of the integral
COUPLED = [name for name, rule in RULES.items() if DraftMode.COUPLED in rule.modes]
BY_TOKEN = [
    name for name in COUPLED if RULES[name].reach is not Reach.WINDOW and RULES[name].charge is None
]


def joint(p: list[float], q: list[float]) -> list[list[float]]:
    """P(x = a, y = b): q_a·p_b·∫ dρ/M(ρ)² over p_a/q_a < ρ < p_b/q_b with M(ρ) = Σ max(q·ρ, p),
    which is linear between the ratios; the diagonal is 1/Σ_i max(p_i/p_a, q_i/q_a)."""
    ratio = [a / b if b else math.inf for a, b in zip(p, q, strict=True)]

    def mass(at: float) -> float:
        return sum(max(b * at, a) for a, b in zip(p, q, strict=True))

    def integral(low: float, high: float) -> float:
        points = [low, *sorted(each for each in ratio if low < each < high), high]
        return sum(
            (b - a) / (mass(a) * mass(b)) if b < math.inf else 1 / mass(a)
            for a, b in pairwise(points)
        )

    def both(a: int) -> float:
        return (
            1 / sum(max(p[i] / p[a], q[i] / q[a]) for i in range(len(p))) if p[a] and q[a] else 0.0
        )

    return [
        [
            both(a)
            if a == b
            else q[a] * p[b] * integral(ratio[a], ratio[b])
            if ratio[a] < ratio[b] and q[a] * p[b]
            else 0.0
            for b in range(len(p))
        ]
        for a in range(len(p))
    ]


def distributions(seed: int, sampling: Sampling) -> tuple[Tensor, list[float], list[float]]:
    """z [1, V], p, and the q of a drafter, which excludes other tokens than p."""
    logits, draft = case("chain of 1", seed)
    assert draft.distribution is not None
    q = target_distribution(draft.distribution.log(), replace(sampling, top_k=4))
    return logits[:1], target_distribution(logits[:1], sampling)[0].tolist(), q[0].tolist()


@every_draw
@pytest.mark.parametrize("seed", range(4))
def test_the_joint_distribution_is_that_of_the_draws_and_the_integral_gives_it(
    seed: int, sampling: Sampling
) -> None:
    _, p, q = distributions(seed, sampling)
    joint_p = torch.tensor(joint(p, q), dtype=torch.float64)
    assert joint_p.sum(-1).tolist() == pytest.approx(q, abs=1e-12)
    assert joint_p.sum(0).tolist() == pytest.approx(p, abs=1e-12)
    integral = joint_integral(
        torch.tensor([p], dtype=torch.float64), torch.tensor([q], dtype=torch.float64)
    )[0]
    for a in range(V):
        for b in range(V):
            if a != b and q[a] and p[b]:
                share = q[a] * p[b] * max(0.0, float(integral[b] - integral[a]))
                assert share == pytest.approx(float(joint_p[a, b]), abs=ERROR)
    count = 100_000
    drawn = noise(keys(seed, 0, count), V)
    x, y = (draw(torch.tensor([each]).expand(count, -1), drawn).ids for each in (q, p))
    share = torch.bincount(x * V + y, minlength=V * V).view(V, V) / count
    assert ((share - joint_p).abs() < 5 * (joint_p * (1 - joint_p) / count).sqrt() + 1e-5).all()


@pytest.mark.parametrize("size", [2, 2000])
def test_the_integral_is_exact_where_target_and_drafter_are_one_and_bounded_elsewhere(
    size: int,
) -> None:
    source = torch.Generator().manual_seed(size)
    p, q = (
        torch.randn(2, size, generator=source, dtype=torch.float64).mul_(2).softmax(-1)
        for _ in range(2)
    )
    assert joint_integral(p, p).amax(-1).tolist() == joint_integral(p, p).amin(-1).tolist()
    order = (p / (p + q)).argsort(-1)
    w, above, below = ((each).gather(-1, order) for each in (p / (p + q), p, q))
    at = w * below.cumsum(-1) + (1 - w) * (1 - above.cumsum(-1))
    exact = torch.nn.functional.pad((w.diff() / (at[:, :-1] * at[:, 1:])).cumsum(-1), (1, 0))
    integral = joint_integral(p, q).gather(-1, order)
    assert (integral - integral[:, :1] - exact).abs().max() < ERROR


@pytest.mark.parametrize("rule", ["mars", "mars-gap"])
def test_nodes_that_relax_nothing_are_left_out_without_a_difference(
    rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(20):
        logits, draft = case("chain of 3", seed)
        case_of = logits, draft, rule, Sampling(1.0), chance(draft, seed)
        row = columns(*case_of, mode=DraftMode.COUPLED)
        monkeypatch.setattr("mars_core.verification.coupled.READABLE", ())
        torch.testing.assert_close(
            columns(*case_of, mode=DraftMode.COUPLED), row, rtol=0, atol=1e-15
        )
        monkeypatch.undo()


def test_what_moves_to_the_two_best_tokens_is_as_in_the_plain_formula() -> None:
    source = torch.Generator().manual_seed(1)
    p, q, noise = (
        torch.randn(5, 3000, generator=source, dtype=torch.float64).mul_(2) for _ in range(3)
    )
    p, q = (p + noise).softmax(-1), (q + noise).softmax(-1)
    p[:, 7] = 0
    p = p / p.sum(-1, keepdim=True)
    best, integral = p.topk(2).indices, joint_integral(p, q)
    weight = torch.rand(5, 2, generator=source, dtype=torch.float64) * q.gather(-1, best)
    weight[0], weight[1, 0], weight[2, 1] = 0, 0, 0
    ahead = (integral[:, None] - integral.gather(-1, best)[..., None]).clamp(min=0)
    moved = weight[..., None] * ahead * p[:, None]
    distribution = (p - moved.sum(1)).scatter_add(-1, best, moved.sum(-1))
    emit = torch.full((5,), 11)
    measured = _moved(p, integral, best, weight, best[:, 1], emit)
    for at, (one, other) in enumerate(zip(distribution.tolist(), p.tolist(), strict=True)):
        expected = {
            "tv": total_variation(one, other),
            "kl": divergence(one, other),
            "overshoot": largest_ratio(one, other),
        }
        assert {name: float(measured[name][at]) for name in expected} == pytest.approx(
            expected, rel=1e-9, abs=1e-13
        )
        assert measured["mass"].view(2, -1)[:, at].tolist() == pytest.approx(
            [one[int(best[at, 1])], one[11]], rel=1e-12
        )
    assert (measured["tv"] > 0).tolist() == [False, True, True, True, True]


def after(rule: str, z: list[float], p: list[float], q: list[float]) -> list[float]:
    """P of the emitted token: y, or x where the rule relaxes it, or what a rule emits that has no
    position for y."""
    distribution, joint_p = [0.0] * V, joint(p, q)
    for a in range(V):
        if not q[a]:
            continue
        alone = after_node(rule, z, p, [a], [q[a]], q, False)  # with a greedy draft of this token
        if RULES[rule].emits_top1:
            for b in range(V):
                distribution[b] += q[a] * alone[b]
            continue
        relaxed = max(0.0, (alone[a] - p[a]) / (1 - p[a])) if p[a] < 1 else 0.0
        for b in range(V):
            distribution[a] += joint_p[a][b] * (relaxed if a != b else 1)
            distribution[b] += joint_p[a][b] * (1 - relaxed) * (a != b)
    return distribution


@every_draw
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("rule", BY_TOKEN)
def test_decisions_have_the_distribution_of_the_joint_draw_and_tv_is_its_distance_from_p_or_a_bound(
    rule: str, seed: int, sampling: Sampling
) -> None:
    """A chain of equal nodes, each with separate noise."""
    count = 20_000
    z, p, q = distributions(seed, sampling)
    drawn = noise(keys(seed, 1, count + 1), V)
    uniform = torch.rand(
        count + 1, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    distribution = torch.tensor([q], dtype=torch.float64).expand(count, -1)
    x = draw(distribution, drawn[:count]).ids
    draft = chain_draft(
        torch.cat([x[:1], x]), distribution.gather(-1, x[:, None])[:, 0], distribution
    )
    u = Chance(uniform, drawn, None)
    rows = columns(
        z.expand(count + 1, -1), draft, rule, sampling, u, mode=DraftMode.COUPLED, telemetry=False
    )
    nodes = walk(rows.tolist()).nodes
    accepted, emit = (torch.tensor(nodes.column(name)) for name in ("keep", "emit"))
    tokens = torch.where(accepted[1:] > 0, x, emit[:-1].long())
    expected = torch.tensor(after(rule, z[0].tolist(), p, q))
    shares = torch.bincount(tokens, minlength=V) / count
    assert ((shares - expected).abs() < 5 * (expected * (1 - expected) / count).sqrt() + 1e-4).all()
    one = chain_draft(draft.ids[:2], draft.q[:1], distribution[:1])
    decided = decide(
        z.expand(2, -1),
        one,
        rule,
        sampling,
        Chance(uniform[:2], drawn[:2], None),
        mode=DraftMode.COUPLED,
    ).nodes[0]
    tv, kl = decided.tv, decided.kl
    exact = total_variation(expected.tolist(), p), divergence(expected.tolist(), p)
    if RULES[rule].shift_kind(chain=True) is ShiftKind.EXACT:
        assert (tv, kl) == pytest.approx(exact, abs=1e-5)
        largest = largest_ratio(expected.tolist(), p)
        assert decided.overshoot == pytest.approx(largest, rel=1e-3)
        assert decided.mass == pytest.approx(float(expected[int(decided.emit)]), abs=1e-5)
        return
    assert math.isnan(decided.overshoot) and math.isnan(decided.mass)
    if RULES[rule].shift_kind(chain=True) is ShiftKind.MISSING:
        assert math.isnan(tv) and math.isnan(kl)
        return
    joint_p, alone = (
        joint(p, q),
        [after_node(rule, z[0].tolist(), p, [a], [q[a]], q, False)[a] for a in range(V)],
    )
    relaxed = sum(
        (alone[a] - p[a]) / (1 - p[a]) * (q[a] - joint_p[a][a])
        for a in range(V)
        if alone[a] > p[a] < 1
    )
    assert exact[0] - 1e-6 <= relaxed <= tv + 1e-6 <= relaxed + 1 / CELLS
    assert exact[1] <= kl + 1e-6 and (kl < math.inf or exact[1] == math.inf)


@every_draw
@pytest.mark.parametrize("children", [1, 3])
@pytest.mark.parametrize("rule", [name for name in BY_TOKEN if takes(name, "siblings")])
def test_after_a_node_of_a_tree_tv_or_the_relaxed_share_bounds_the_distance(
    rule: str, children: int, sampling: Sampling
) -> None:
    """Equal nodes, each with separate noise and with its best tokens in ln q + g as children."""
    batches, count = 4, 500
    z, p, q = distributions(2, sampling)
    tokens, relaxed, end = [], 0, None
    for batch in range(batches):
        drawn = noise(keys(batch, 1, count + 2), V)
        uniform = torch.rand(
            count + 2, generator=torch.Generator().manual_seed(batch), dtype=torch.float64
        )
        x = (torch.tensor([q]) / drawn[1:-1]).topk(children).indices.view(-1)
        ids, number = (
            torch.cat([torch.zeros(count + 1, dtype=torch.long), x]),
            torch.arange(1, count + 1),
        )
        parents = torch.cat(
            [torch.zeros(count, dtype=torch.long), number.repeat_interleave(children)]
        )
        depths = torch.cat(
            [torch.arange(count + 1), torch.full_like(x, count + 1)]
        )  # a depth has one noise
        draft = Draft(ids, parents, depths, torch.tensor(q)[ids[1:]], count + 1, is_chain=False)
        expanded_z, u = z.expand(len(ids), -1), Chance(uniform, drawn, None)
        nodes = walk(
            columns(expanded_z, draft, rule, sampling, u, mode=DraftMode.COUPLED).tolist()
        ).nodes
        keep, strict, emit = (nodes.column(name) for name in ("keep", "strict", "emit"))
        for node in range(1, count + 1):
            accepted = [child for child in nodes.children[node] if keep[child]]
            tokens.append(int(ids[accepted[0]] if accepted else emit[node]))
            relaxed += bool(accepted and not strict[accepted[0]])
        end = nodes.emitted(1)
    assert end is not None
    distance = total_variation(
        (torch.bincount(torch.tensor(tokens), minlength=V) / len(tokens)).tolist(), p
    )
    missing = RULES[rule].shift_kind(chain=False) is ShiftKind.MISSING
    assert math.isnan(end.tv) == math.isnan(end.kl) == missing
    assert (
        distance <= (relaxed / len(tokens) if missing else end.tv) + 1.5 * (V / len(tokens)) ** 0.5
    )


@every_sampling
@pytest.mark.parametrize("tree", TREES)
def test_a_token_is_accepted_only_if_it_is_the_targets_or_relaxed(
    tree: str, sampling: Sampling
) -> None:
    """So strict follows the target's draws. Where strict's TV is 0, a relaxed tree's is
    missing."""
    for seed in range(10):
        logits, draft, u = drawn_case(tree, seed)
        target_ids = None
        for rule in (each for each in COUPLED if takes(each, tree)):
            rows = columns(logits, draft, rule, sampling, u, mode=DraftMode.COUPLED)
            target_ids = target_ids or column(rows, "own")
            assert column(rows, "own") == target_ids
            if RULES[rule].emits_top1 or not sampling.temperature:
                continue
            assert column(rows, "emit") == target_ids
            decision = decide(logits, draft, rule, sampling, u, mode=DraftMode.COUPLED)
            for number, node in enumerate(decision.nodes):
                drafted = [decision.nodes[child] for child in decision.children[number]]
                matching = [child for child in drafted if child.id == target_ids[number]]
                assert [child.keep for child in matching[:1]] == [1] * len(matching[:1])
                if RULES[rule].reach is not Reach.WINDOW:
                    assert all(
                        child.forgiveness > 0
                        for child in drafted
                        if child.keep and child.id != target_ids[number]
                    )
                if RULES[rule].relaxes == 0:
                    assert (node.tv, node.kl) == (0, 0)
                elif RULES[rule].shift_kind(draft.is_chain) is ShiftKind.MISSING:
                    assert math.isnan(node.tv) and math.isnan(node.kl)
                elif not drafted:
                    assert (node.tv, node.kl) == (0, 0)


def test_coupled_drafts_are_greedy_ones_at_temperature_0_and_from_drafters_without_probabilities() -> (
    None
):
    logits, draft = case("chain of 3", 0)
    for each, sampling in (
        (draft, Sampling(0.0)),
        (chain_draft(draft.ids, torch.ones(3)), Sampling(1.0)),
    ):
        rows = [
            columns(logits, each, "mars", sampling, chance(each, 0), mode=mode)
            for mode in (DraftMode.COUPLED, DraftMode.GREEDY)
        ]
        assert torch.equal(*rows)
