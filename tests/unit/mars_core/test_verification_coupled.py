"""Coupled drafts: the joint distribution of the draft and the target's token."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from mars_core.sampling import draw, noise, target_distribution
from mars_core.types import DraftMode, Sampling
from mars_core.verification.coupled import CELLS, joint_integral
from tests.unit.mars_core.published import joint
from tests.unit.mars_core.test_verification import (
    V,
    case,
    chance,
    columns,
    every_draw,
    keys,
)

ERROR = 6 / CELLS**2  # of the integral


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
