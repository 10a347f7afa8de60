"""Rules that look ahead: which mismatches FLy forgives, the distribution that this makes, and what follows in the next step."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import pairwise, product

import pytest
import torch

from mars_core.sampling import target_distribution
from mars_core.types import Sampling
from mars_core.verification import chain_draft
from mars_core.verification.window import window_shares
from tests.unit.mars_core.published import Distribution
from tests.unit.mars_core.test_verification import (
    CHAINS,
    SAMPLINGS,
    V,
    case,
    chance,
    column,
    columns,
    decide,
    middle_of,
)
from tests.unit.mars_core.test_verification_sampled import likelihood, verify


def test_entropy_is_that_of_the_three_best_in_the_full_law_and_the_bar_is_inclusive() -> None:
    logits, draft = case("chain of 3", 2)
    draft = chain_draft(torch.cat([draft.ids[:1], logits[0].argsort()[:1], logits[1:3].argmax(-1)]), torch.ones(3))
    best = logits[0].softmax(-1).topk(3).values
    bar = float(-(best * best.log()).sum())
    for sampling in (Sampling(0.0), Sampling(1.0)):
        u = torch.zeros(4, 3, dtype=torch.float64)  # with which every token passes that p does not exclude
        for at, token in enumerate([int(logits[0].argmax()), *draft.ids[2:].tolist()]):
            u[at, 0] = middle_of(logits[at].softmax(-1), token)
        for entropy, kept in [(bar - 1e-9, 3), (bar + 1e-9, 0)]:
            path = decide(logits, draft, "fly", sampling, u, {"window": 2, "entropy": entropy}).path
            assert len(path) - 1 == kept


def test_what_p_excludes_is_never_forgiven() -> None:
    logits = torch.tensor([(1.0, 0.9, 0.8)] * 3, dtype=torch.float64)
    draft = chain_draft(torch.tensor([0, 2, 0]), torch.ones(2))
    u = torch.full((3, 3), 0.1, dtype=torch.float64)
    for top_k, kept in [(3, 2), (2, 0)]:
        assert len(decide(logits, draft, "fly", Sampling(1.0, top_k), u, {"window": 1}).path) - 1 == kept


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
@pytest.mark.parametrize("tree", CHAINS)
def test_a_window_as_long_as_the_draft_is_strict(tree: str, sampling: Sampling) -> None:
    for seed in range(4):
        logits, draft = case(tree, seed)
        u = chance(draft, seed)
        rows = columns(logits, draft, "fly", sampling, u, {"window": draft.size, "entropy": 0})
        strict = columns(logits, draft, "strict", sampling, u)
        assert all(column(rows, name) == column(strict, name) for name in ("keep", "emit", "forgiveness"))
        assert max(*column(rows, "tv"), *column(rows, "kl")) < 1e-12


def outcomes(p: list[float]) -> Iterator[tuple[tuple[bool, ...], tuple[bool, ...], float]]:
    """(own, passes, probability): which drafted tokens are the target's own draws, and which pass their own test."""
    for flags in product([True, False], repeat=2 * len(p)):
        weight = math.prod(each if flag else 1 - each for each, flag in zip(p * 2, flags, strict=True))
        yield flags[: len(p)], flags[len(p) :], weight


def kept(own: tuple[bool, ...], passes: tuple[bool, ...], gate: list[float], window: int) -> int:
    """How many drafted tokens are kept."""
    forced = 0
    for at, match in enumerate(own):
        after = passes[at + 1 : at + 1 + window]
        if forced:
            forced -= 1
        elif not match and gate[at] and len(after) == window and all(after):
            forced = window
        elif not match:
            return at
    return len(own)


def chain_distribution(p: list[float], lengths: Iterable[tuple[int, float]]) -> list[float]:
    """P(xᵢ | x₁ … xᵢ₋₁) from the (kept tokens, probability) of all outcomes."""
    reached = [0.0] * (len(p) + 1)
    for length, weight in lengths:
        for at in range(length + 1):
            reached[at] += weight
    return [after / before if before else math.nan for before, after in pairwise(reached)]


@pytest.mark.parametrize("window", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", range(6))
def test_window_shares_are_those_of_all_outcomes(seed: int, window: int) -> None:
    source = torch.Generator().manual_seed(seed)
    p = torch.rand(5, generator=source, dtype=torch.float64)
    gate = (torch.rand(5, generator=source) < 0.6).double()
    lengths = ((kept(own, passes, gate.tolist(), window), weight) for own, passes, weight in outcomes(p.tolist()))
    expected = chain_distribution(p.tolist(), lengths)
    assert window_shares(p, gate, window).tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("window", [1, 2])
@pytest.mark.parametrize("sampling", SAMPLINGS[1:], ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_law_and_meter_of_fly_are_those_of_all_outcomes_of_its_decisions(
    sampling: Sampling, seed: int, window: int
) -> None:
    values = {"window": window, "entropy": 0.5}
    logits, draft = case("chain of 3", seed)
    distribution, x = target_distribution(logits, sampling), draft.ids[1:].tolist()
    p = [float(distribution[at, token]) for at, token in enumerate(x)]
    others = [next(y for y in range(V) if distribution[at, y] > 0 and y != token) for at, token in enumerate(x)]
    best = distribution[:3].topk(3).values
    gate = (-torch.xlogy(best, best).sum(-1) >= 0.5).double() * (torch.tensor(p) > 0)
    lengths = []
    for own, passes, weight in outcomes(p):
        if not weight:
            continue
        u = torch.full((4, 3), 0.5, dtype=torch.float64)
        for at, match in enumerate(own):
            u[at, 0] = middle_of(distribution[at], x[at] if match else others[at])
            u[at, 1] = p[at] - 1e-9 if passes[at] else p[at] + 1e-9
        verdict = decide(logits, draft, "fly", sampling, u, values)
        lengths.append((kept(own, passes, gate.tolist(), window), weight))
        assert len(verdict.path) - 1 == lengths[-1][0]
    nodes = decide(logits, draft, "fly", sampling, chance(draft, 0), values).nodes
    for node, each, said in zip(nodes, p, chain_distribution(p, lengths), strict=False):
        if math.isnan(said):  # no text comes here
            continue
        kl = sum(a * math.log(a / b) if b else math.inf for a, b in ((said, each), (1 - said, 1 - each)) if a > 1e-12)
        assert node.tv == pytest.approx(abs(said - each), abs=1e-9)
        assert node.kl == pytest.approx(kl, abs=1e-9)


def test_after_a_refusal_the_meter_of_the_next_step_tells_the_law_of_its_token() -> None:
    """Drawing uniforms belong to positions, accepting ones to steps, as the engine has it: the next draw is one from p.

    p = (.5, .5) everywhere, drafts of zeros, W = 1: all texts of two tokens that begin with a refusal.
    """
    logits = torch.zeros(3, 2, dtype=torch.float64)
    found, metered = [0.0, 0.0], []
    for *draws, passes in product([0.25, 0.75], repeat=4):
        u = torch.tensor([[each, passes, 0.5] for each in draws], dtype=torch.float64)
        steps = [
            decide(logits[: n + 1], chain_draft(torch.zeros(n + 1).long(), torch.ones(n)), "fly", Sampling(1.0), u[2 - n :],
                   {"window": 1, "entropy": 0.0})
            for n in (2, 1)
        ]  # fmt: skip
        if len(steps[0].path) == 1:  # refused at once: one token, the own one
            end = steps[1].nodes[0]
            found[int(steps[1].nodes[1].id if len(steps[1].path) > 1 else end.emit)] += 1
            metered.append(end.tv)
    distribution = [each / sum(found) for each in found]
    assert metered == pytest.approx([abs(distribution[0] - 0.5)] * len(metered))


@pytest.mark.parametrize("rule", ["strict", "block"])
def test_lossless_rules_are_lossless_over_several_steps(rule: str) -> None:
    """The first two tokens of texts of three: drafts of two, then of one, with uniforms of each step's own."""

    def p(text: tuple[int, ...]) -> Distribution:
        return [0.25, 0.75] if text and text[-1] == 0 else [0.75, 0.25]

    def q(_: tuple[int, ...]) -> Distribution:
        return [0.5, 0.5]

    def texts(text: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], float]]:
        count = 2 - len(text)
        if count <= 0:
            yield text[:2], 1.0
            return
        for x, accept in product(product((0, 1), repeat=count), product([0.125, 0.375, 0.625, 0.875], repeat=count)):
            u = torch.tensor(
                [[0.5, each, 0.5] for each in (*accept, 0.5)], dtype=torch.float64
            )  # all chances are quarters
            verdict = verify(rule, x, lambda more: p(text + more), q, u)  # all corrections are certain
            emitted = (*x[: len(verdict.path) - 1], int(verdict.nodes[verdict.path[-1]].emit))
            for end, weight in texts(text + emitted):
                yield end, weight / 8**count

    found = dict.fromkeys(product(range(2), repeat=2), 0.0)
    for text, weight in texts(()):
        found[text] += weight
    assert found == pytest.approx({pair: likelihood(pair, p) for pair in found}, abs=1e-9)
