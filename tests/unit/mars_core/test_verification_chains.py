"""Chains. Sampled drafts: blocks are decided as published. Rules that look ahead: which mismatches
FLy relaxes, and the distribution that this makes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise, product

import pytest
import torch

from mars_core.rules import RULES
from mars_core.sampling import target_distribution
from mars_core.types import DraftMode, Sampling
from mars_core.verification import chain_draft
from tests.unit.mars_core.published import Distribution, norm
from tests.unit.mars_core.test_verification import (
    V,
    case,
    chance,
    column,
    columns,
    decide,
    drawn_case,
    every_draw,
    picked,
)

NEAR = 1e-9  # how close to a border the decisions on both sides of it are tried


@pytest.mark.parametrize("rule", RULES)
def test_at_temperature_0_and_without_probabilities_every_draft_is_a_greedy_one(rule: str) -> None:
    logits, draft = case("chain of 3", 0)
    without = chain_draft(draft.ids, torch.ones(3))
    for each, sampling in ((draft, Sampling(0.0)), (without, Sampling(1.0))):
        of_modes = [
            columns(logits, each, rule, sampling, chance(each, 0), mode=mode) for mode in DraftMode
        ]
        assert all(torch.equal(rows, of_modes[0]) for rows in of_modes)


@pytest.mark.parametrize("rule", [name for name in RULES if DraftMode.SAMPLED in RULES[name].modes])
def test_ids_that_only_the_target_knows_are_never_drafted_but_may_be_drawn(rule: str) -> None:
    logits, draft = case("chain of 1", 1)
    logits[:, V - 1] = 9.0
    known = draft.distribution
    assert known is not None
    distribution = known[:, : V - 2] / known[:, : V - 2].sum()
    short = chain_draft(torch.tensor([0, 0]), distribution[:, 0], distribution)
    full = chain_draft(
        torch.tensor([0, 0]), distribution[:, 0], torch.nn.functional.pad(distribution, (0, 2))
    )
    for seed in range(5):
        u = chance(short, seed)
        rows = columns(logits, short, rule, Sampling(1.0), u, mode=DraftMode.SAMPLED)
        other = columns(logits, full, rule, Sampling(1.0), u, mode=DraftMode.SAMPLED)
        torch.testing.assert_close(rows, other, rtol=0, atol=0, equal_nan=True)
        assert column(rows, "emit")[1] == V - 1


def block(
    x: Sequence[int], p: Distribution, q: Distribution
) -> tuple[list[float], list[Distribution]]:
    """Block verification (2403.10444): hᵢ of each position, and the correction after each beginning
    that is kept; p [N + 1, V], q [N, V]."""
    reach = [1.0]
    for at, token in enumerate(x):
        reach.append(float(min(1, reach[-1] * p[at, token] / q[at, token])))
    excess = [reach[at] * p[at] - q[at] for at in range(len(x))]
    mass = [float(row.clip(min=0).sum()) for row in excess]
    ends = [
        mass[at] / (mass[at] + 1 - reach[at]) if mass[at] + 1 - reach[at] else 1.0
        for at in range(1, len(x))
    ]
    return [*ends, reach[-1]], [*map(norm, excess, p), p[-1]]


@every_draw
@pytest.mark.parametrize("seed", range(6))
def test_a_block_is_kept_up_to_the_last_position_that_passes(sampling: Sampling, seed: int) -> None:
    """And goes on with a draw from the correction there."""
    logits, draft, u = drawn_case("chain of 3", seed)
    assert draft.distribution is not None and u.noise is not None
    p, q = target_distribution(logits, sampling), draft.distribution
    chances, corrections = block(draft.ids[1:].tolist(), p.numpy(), q.numpy())
    for some in product(*[(max(0.0, most - NEAR), most + NEAR) for most in chances]):
        passed = [at for at, most in enumerate(chances, start=1) if some[at - 1] < most]
        uniform = torch.tensor([*some, 0.5], dtype=torch.float64)
        options = draft, "block", sampling, replace(u, uniform=uniform)
        verdict = decide(logits, *options, mode=DraftMode.SAMPLED)
        kept = max(passed, default=0)
        assert len(verdict.path) - 1 == kept
        drawn = (torch.from_numpy(corrections[kept]) / u.noise[kept]).argmax()
        assert verdict.nodes[kept].emit == drawn


def outcomes(p: list[float]) -> Iterator[tuple[tuple[bool, ...], tuple[bool, ...], float]]:
    """(matches, passes, probability): which drafted tokens are the target's draws, and which pass
    their test."""
    for flags in product([True, False], repeat=2 * len(p)):
        weight = math.prod(
            each if flag else 1 - each for each, flag in zip(p * 2, flags, strict=True)
        )
        yield flags[: len(p)], flags[len(p) :], weight


def accepted_count(
    matches: tuple[bool, ...], passes: tuple[bool, ...], gate: list[float], window: int
) -> int:
    """How many drafted tokens are accepted."""
    forced = 0
    for at, match in enumerate(matches):
        after = passes[at + 1 : at + 1 + window]
        if forced:
            forced -= 1
        elif not match and gate[at] and len(after) == window and all(after):
            forced = window
        elif not match:
            return at
    return len(matches)


def chain_distribution(p: list[float], lengths: Iterable[tuple[int, float]]) -> list[float]:
    """P(xᵢ | x₁ … xᵢ₋₁) from the (accepted tokens, probability) of all outcomes."""
    reached = [0.0] * (len(p) + 1)
    for length, weight in lengths:
        for at in range(length + 1):
            reached[at] += weight
    return [after / before if before else math.nan for before, after in pairwise(reached)]


@pytest.mark.parametrize("window", [1, 2])
@every_draw
@pytest.mark.parametrize("seed", range(2))
def test_distribution_and_tv_of_fly_are_those_of_all_outcomes_of_its_decisions(
    sampling: Sampling, seed: int, window: int
) -> None:
    values = {"window": window, "entropy": 0.5}
    logits, draft = case("chain of 3", seed)
    distribution, x = target_distribution(logits, sampling), draft.ids[1:].tolist()
    p = [float(distribution[at, token]) for at, token in enumerate(x)]
    others = [
        next(y for y in range(V) if distribution[at, y] > 0 and y != token)
        for at, token in enumerate(x)
    ]
    best = distribution[:3].topk(3).values
    gate = (-torch.xlogy(best, best).sum(-1) >= 0.5).double() * (torch.tensor(p) > 0)
    lengths = []
    for matches, passes, weight in outcomes(p):
        if not weight:
            continue
        drawn = [[a if match else b] for match, a, b in zip(matches, x, others, strict=True)]
        u = picked(
            *drawn,
            [0],
            uniform=[
                *(a - 1e-9 if passed else a + 1e-9 for a, passed in zip(p, passes, strict=True)),
                0.5,
            ],
        )
        verdict = decide(logits, draft, "fly", sampling, u, values)
        lengths.append((accepted_count(matches, passes, gate.tolist(), window), weight))
        assert len(verdict.path) - 1 == lengths[-1][0]
    nodes = decide(logits, draft, "fly", sampling, chance(draft, 0), values).nodes
    for node, each, expected in zip(nodes, p, chain_distribution(p, lengths), strict=False):
        if math.isnan(expected):  # no text comes here
            continue
        kl = sum(
            a * math.log(a / b) if b else math.inf
            for a, b in ((expected, each), (1 - expected, 1 - each))
            if a > 1e-12
        )
        assert node.tv == pytest.approx(abs(expected - each), abs=1e-9)
        assert node.kl == pytest.approx(kl, abs=1e-9)
