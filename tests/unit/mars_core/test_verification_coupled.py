"""Coupled drafts: the joint distribution of the draft and the target's token, what a rule accepts
of it, and TV and KL of the emitted token."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from mars_core.rules import RULES, Reach
from mars_core.sampling import draw, noise, target_distribution
from mars_core.types import DraftMode, Sampling, ShiftKind
from mars_core.verification.coupled import CELLS, joint_integral
from tests.unit.mars_core.published import joint
from tests.unit.mars_core.test_verification import (
    TREES,
    V,
    case,
    chance,
    columns,
    decoded,
    drawn_case,
    every_draw,
    every_sampling,
    keys,
    takes,
)

ERROR = 6 / CELLS**2  # of the integral
COUPLED = [name for name, rule in RULES.items() if DraftMode.COUPLED in rule.modes]


def distributions(seed: int, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """p [V], and the q of a drafter, which excludes other tokens than p."""
    logits, draft = case("chain of 1", seed)
    assert draft.distribution is not None
    q = target_distribution(draft.distribution.log(), replace(sampling, top_k=4))
    return target_distribution(logits[:1], sampling)[0], q[0]


@every_draw
@pytest.mark.parametrize("seed", range(4))
def test_the_joint_distribution_is_that_of_the_draws_and_the_integral_gives_it(
    seed: int, sampling: Sampling
) -> None:
    p, q = distributions(seed, sampling)
    joint_p = torch.tensor(joint(p.numpy(), q.numpy()))
    torch.testing.assert_close(joint_p.sum(-1), q, rtol=0, atol=1e-12)
    torch.testing.assert_close(joint_p.sum(0), p, rtol=0, atol=1e-12)
    integral = joint_integral(p[None], q[None])[0]
    for a in range(V):
        for b in range(V):
            if a != b and q[a] and p[b]:
                share = q[a] * p[b] * (integral[b] - integral[a]).clamp(min=0)
                assert float(share) == pytest.approx(float(joint_p[a, b]), abs=ERROR)
    count = 100_000
    drawn = noise(keys(seed, 0, count), V)
    x, y = (draw(each.expand(count, -1), drawn).ids for each in (q, p))
    share = torch.bincount(x * V + y, minlength=V * V).view(V, V) / count
    assert ((share - joint_p).abs() < 5 * (joint_p * (1 - joint_p) / count).sqrt() + 1e-5).all()


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


@every_sampling
@pytest.mark.parametrize("tree", TREES)
def test_a_token_is_accepted_only_if_it_is_the_targets_or_relaxed(
    tree: str, sampling: Sampling
) -> None:
    """So strict follows the target's draws. Where strict's TV is 0, a relaxed tree's is
    missing."""
    for seed in range(5):
        logits, draft, u = drawn_case(tree, seed)
        target_ids = None
        for rule in (each for each in COUPLED if takes(each, tree)):
            rows = columns(logits, draft, rule, sampling, u, mode=DraftMode.COUPLED)
            decision = decoded(rows)
            own, emitted = zip(*((node.own, node.emit) for node in decision.nodes), strict=True)
            target_ids = target_ids or own
            assert own == target_ids
            if RULES[rule].emits_top1 or not sampling.temperature:
                continue
            assert emitted == target_ids
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
