"""Chains. Sampled drafts: the distribution of every rule's decisions is q·a + (1 − Σ q·a)·R with
the published pair (a, R), and blocks are lossless. Rules that look ahead: which mismatches FLy
relaxes, the distribution that this makes, and what follows in the next step."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise, product

import pytest
import torch
from torch import Tensor

from mars_core.rules import RULES, Reach
from mars_core.sampling import Chance, target_distribution
from mars_core.types import DraftMode, Sampling
from mars_core.verification import chain_draft
from mars_core.verification.window import window_shares
from tests.unit.mars_core.published import Distribution, accepted, correction, norm
from tests.unit.mars_core.test_verification import (
    CHAINS,
    Decoded,
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
    largest_ratio,
    largest_shift,
    picked,
    total_variation,
)

NEAR = 1e-9  # how close to a border the decisions on both sides of it are tried
BY_TOKEN = [
    name
    for name, rule in RULES.items()
    if DraftMode.SAMPLED in rule.modes
    and rule.reach in (Reach.TOKEN, Reach.DRAFTED)
    and rule.charge is None
]


def distribution_of(
    q: Distribution, accept: Distribution, replaced: Sequence[Distribution]
) -> Distribution:
    """``replaced``: R after each rejected token."""
    lost = [a * (1 - b) for a, b in zip(q, accept, strict=True)]
    return [
        q[y] * accept[y] + sum(each * r[y] for each, r in zip(lost, replaced, strict=True))
        for y in range(len(q))
    ]


def probes(borders: Sequence[float]) -> Iterator[tuple[float, float]]:
    """(u, weight): the intervals between the borders, at both ends and within."""
    for low, high in pairwise(sorted({0.0, 1.0, *borders})):
        if high - low > 4 * NEAR:
            for u in (low + NEAR, low + 0.3 * (high - low), low + 0.7 * (high - low), high - NEAR):
                yield u, (high - low) / 4


def position(sampling: Sampling, seed: int) -> tuple[Tensor, Distribution, Distribution]:
    """z [1, V], p and q; the drafter has no filters, so that p excludes some of what it drafts."""
    logits, draft = case("chain of 1", seed)
    assert draft.distribution is not None
    return (
        logits[:1],
        target_distribution(logits[:1], sampling)[0].tolist(),
        draft.distribution[0].tolist(),
    )


@pytest.mark.parametrize("seed", range(4))
@every_draw
@pytest.mark.parametrize("rule", BY_TOKEN)
def test_distribution_of_the_decisions_is_the_published_one_and_tv_its_distance_from_p(
    rule: str, sampling: Sampling, seed: int
) -> None:
    """A chain of equal nodes tries every drafted token, weighted by q, with all coins and all
    noise that could matter."""
    z, p, q = position(sampling, seed)
    accept = accepted(rule, z[0].tolist(), p, q)
    replaced = [correction(rule, z[0].tolist(), p, q, x) for x in range(V)]
    trials = [
        (x, u, (y, share))
        for x in range(V)
        for u, (y, share) in product(probes([accept[x]]), enumerate(replaced[x]))
        if share
    ]
    x = torch.tensor([0, *(trial[0] for trial in trials)])
    u = picked(*([w[0]] for _, _, w in trials), [0], uniform=[*(u[0] for _, u, _ in trials), 0.5])
    distribution = torch.tensor([q], dtype=torch.float64).expand(len(trials), -1)
    draft = chain_draft(x, distribution[0, x[1:]], distribution)
    rows = columns(z.expand(len(x), -1), draft, rule, sampling, u, mode=DraftMode.SAMPLED)
    keep, emit = column(rows, "keep")[1:], column(rows, "emit")
    counted = [0.0] * V
    for (token, accepting, drawing), accepted_token, other in zip(trials, keep, emit, strict=False):
        counted[token if accepted_token else int(other)] += q[token] * accepting[1] * drawing[1]
    assert counted == pytest.approx(distribution_of(q, accept, replaced), abs=1e-9)
    if RULES[rule].reach is Reach.DRAFTED:
        assert all(math.isnan(column(rows, name)[0]) for name in ("tv", "kl", "overshoot", "mass"))
        return
    assert column(rows, "tv")[0] == pytest.approx(total_variation(counted, p), abs=1e-7)
    assert column(rows, "tv")[0] == pytest.approx(
        total_variation(distribution_of(q, accept, replaced), p), abs=1e-12
    )
    expected = distribution_of(q, accept, replaced)
    assert column(rows, "kl")[0] == pytest.approx(divergence(expected, p), abs=1e-12)
    assert column(rows, "overshoot")[0] == pytest.approx(largest_ratio(expected, p), rel=1e-9)
    masses = zip(column(rows, "mass")[:-1], emit[:-1], strict=True)
    assert all(mass == pytest.approx(expected[int(token)]) for mass, token in masses)


@every_draw
@pytest.mark.parametrize("rule", ["strict", "block"])
def test_tv_of_the_lossless_rules_is_0(rule: str, sampling: Sampling) -> None:
    for seed in range(20):
        logits, draft = case("chain of 3", seed)
        assert draft.distribution is not None
        draft = chain_draft(
            draft.ids, draft.q.float(), draft.distribution.float()
        )  # as the models give them
        rows = columns(
            logits.float(), draft, rule, sampling, chance(draft, seed), mode=DraftMode.SAMPLED
        )
        assert largest_shift(rows) < 1e-12


@pytest.mark.parametrize("rule", RULES)
def test_temperature_0_makes_every_draft_a_greedy_one(rule: str) -> None:
    for tree in CHAINS:
        for seed in range(5):
            logits, draft = case(tree, seed)
            sampled, greedy = (
                columns(logits, draft, rule, Sampling(0.0), chance(draft, seed), mode=mode)
                for mode in (DraftMode.SAMPLED, DraftMode.GREEDY)
            )
            assert torch.equal(sampled, greedy)


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


Contexts = Callable[[tuple[int, ...]], Distribution]


def contexts(seed: str, size: int) -> Contexts:
    """A language: the distribution of the next of ``size`` tokens after any text."""

    def after(text: tuple[int, ...]) -> Distribution:
        rng = random.Random(f"{seed}{text}")
        weights = [rng.random() ** 2 + 0.02 for _ in range(size)]
        return [weight / sum(weights) for weight in weights]

    return after


def block(x: tuple[int, ...], p: Contexts, q: Contexts) -> tuple[list[float], list[Distribution]]:
    """Block verification (2403.10444): hᵢ of each position, and the correction after each beginning
    that is kept."""
    reach = [1.0]
    for at, token in enumerate(x):
        reach.append(min(1.0, reach[-1] * p(x[:at])[token] / q(x[:at])[token]))
    excess = [
        [reach[at] * a - b for a, b in zip(p(x[:at]), q(x[:at]), strict=True)]
        for at in range(len(x))
    ]
    mass = [sum(max(0.0, each) for each in row) for row in excess]
    ends = [
        mass[at] / (mass[at] + 1 - reach[at]) if mass[at] + 1 - reach[at] else 1.0
        for at in range(1, len(x))
    ]
    return [*ends, reach[-1]], [norm(row, p(x[:at])) for at, row in enumerate(excess)]


def verify(rule: str, x: tuple[int, ...], p: Contexts, q: Contexts, u: Chance) -> Decoded:
    prefixes = [x[:at] for at in range(len(x) + 1)]
    logits = torch.tensor([p(text) for text in prefixes], dtype=torch.float64).log()
    distribution = torch.tensor([q(text) for text in prefixes[:-1]], dtype=torch.float64)
    draft = chain_draft(
        torch.tensor([0, *x]), distribution.gather(-1, torch.tensor(x)[:, None])[:, 0], distribution
    )
    return decide(logits, draft, rule, Sampling(1.0), u, mode=DraftMode.SAMPLED)


def sides(chances: Sequence[float]) -> Iterator[tuple[tuple[float, ...], float]]:
    """(uniforms, weight): just below and just above each chance, one of the two at every
    position."""
    cells = [[(c - NEAR, c)] * (c > NEAR) + [(c + NEAR, 1 - c)] * (c < 1 - NEAR) for c in chances]
    for cell in product(*cells):
        yield tuple(u for u, _ in cell), math.prod(weight for _, weight in cell)


def likelihood(text: tuple[int, ...], distribution: Contexts) -> float:
    return math.prod(distribution(text[:at])[token] for at, token in enumerate(text))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("length", [2, 3])
def test_block_verification_is_lossless(length: int, seed: int) -> None:
    """The distribution of the first ``length`` tokens: every draft, every decision, every
    correction, continued with p."""
    p, q = contexts(f"p{seed}", 3), contexts(f"q{seed}", 3)
    weights = dict.fromkeys(product(range(3), repeat=length), 0.0)
    for x in product(range(3), repeat=length):
        chances, corrections = block(x, p, q)
        for accept, weight in sides(chances):
            weight *= likelihood(x, q)
            u = picked(*[[0]] * (length + 1), uniform=[*accept, 0.5], size=3)
            accepted = len(verify("block", x, p, q, u).path) - 1
            if accepted == length:
                weights[x] += weight
                continue
            for token, share in enumerate(corrections[accepted]):
                if not share:
                    continue
                u = picked(*[[token]] * (length + 1), uniform=[*accept, 0.5], size=3)
                verdict = verify("block", x, p, q, u)
                text = (*x[:accepted], int(verdict.nodes[accepted].emit))
                assert text[-1] == token
                for rest in product(range(3), repeat=length - len(text)):
                    weights[text + rest] += (
                        weight * share * likelihood(text + rest, p) / likelihood(text, p)
                    )
    assert weights == pytest.approx({text: likelihood(text, p) for text in weights}, abs=1e-9)


def test_block_verification_keeps_as_much_as_strict_on_average_or_more() -> None:
    gains = []
    for seed in range(4):
        p, q = contexts(f"p{seed}", 3), contexts(f"q{seed}", 3)
        length = {"block": 0.0, "strict": 0.0}
        for x in product(range(3), repeat=2):
            strict = [min(1.0, p(x[:at])[token] / q(x[:at])[token]) for at, token in enumerate(x)]
            for rule, chances in (("block", block(x, p, q)[0]), ("strict", strict)):
                for accept, weight in sides(chances):
                    u = picked(*[[0]] * 3, uniform=[*accept, 0.5], size=3)
                    length[rule] += (
                        weight * likelihood(x, q) * (len(verify(rule, x, p, q, u).path) - 1)
                    )
        gains.append(length["block"] - length["strict"])
    assert min(gains) > -1e-8
    assert max(gains) > 0.01


def test_entropy_is_that_of_the_three_best_in_the_full_distribution_and_the_bound_is_inclusive() -> (
    None
):
    logits, draft = case("chain of 3", 2)
    draft = chain_draft(
        torch.cat([draft.ids[:1], logits[0].argsort()[:1], logits[1:3].argmax(-1)]), torch.ones(3)
    )
    best = logits[0].softmax(-1).topk(3).values
    bar = float(-(best * best.log()).sum())
    for sampling in (Sampling(0.0), Sampling(1.0)):
        drawn = [int(logits[0].argmax()), *draft.ids[2:].tolist(), 0]
        u = picked(
            *([token] for token in drawn), uniform=[0.0] * 4
        )  # every token passes that p does not exclude
        for entropy, count in [(bar - 1e-9, 3), (bar + 1e-9, 0)]:
            path = decide(logits, draft, "fly", sampling, u, {"window": 2, "entropy": entropy}).path
            assert len(path) - 1 == count


def test_what_p_excludes_is_never_relaxed() -> None:
    logits = torch.tensor([(1.0, 0.9, 0.8)] * 3, dtype=torch.float64)
    draft = chain_draft(torch.tensor([0, 2, 0]), torch.ones(2))
    u = picked([0], [0], [0], uniform=[0.1] * 3, size=3)
    for top_k, count in [(3, 2), (2, 0)]:
        assert (
            len(decide(logits, draft, "fly", Sampling(1.0, top_k), u, {"window": 1}).path) - 1
            == count
        )


@every_sampling
@pytest.mark.parametrize("tree", CHAINS)
def test_a_window_as_long_as_the_draft_is_strict(tree: str, sampling: Sampling) -> None:
    for seed in range(4):
        logits, draft, u = drawn_case(tree, seed)
        rows = columns(logits, draft, "fly", sampling, u, {"window": draft.size, "entropy": 0})
        strict = columns(logits, draft, "strict", sampling, u)
        assert all(
            column(rows, name) == column(strict, name) for name in ("keep", "emit", "forgiveness")
        )
        assert largest_shift(rows) < 1e-12


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


@pytest.mark.parametrize("window", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", range(6))
def test_window_shares_are_those_of_all_outcomes(seed: int, window: int) -> None:
    source = torch.Generator().manual_seed(seed)
    p = torch.rand(5, generator=source, dtype=torch.float64)
    gate = (torch.rand(5, generator=source) < 0.6).double()
    lengths = (
        (accepted_count(matches, passes, gate.tolist(), window), weight)
        for matches, passes, weight in outcomes(p.tolist())
    )
    expected = chain_distribution(p.tolist(), lengths)
    assert window_shares(p, gate, window).tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("window", [1, 2])
@every_draw
@pytest.mark.parametrize("seed", range(3))
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


def test_after_a_rejection_the_tv_of_the_next_step_is_that_of_its_token() -> None:
    """Noise belongs to positions, accepting uniforms to steps, as the engine has it: the next draw
    is one from p.

    p = (.5, .5) everywhere, drafts of zeros, W = 1: all texts of two tokens that begin with a
    refusal.
    """
    logits = torch.zeros(3, 2, dtype=torch.float64)
    counts, tv = [0.0, 0.0], []
    for *draws, passes in product([0, 1], repeat=4):
        u = picked(*([each] for each in draws), uniform=[0.25 + passes / 2] * 3, size=2)
        assert u.noise is not None
        values, steps = {"window": 1, "entropy": 0.0}, []
        for n in (2, 1):
            draft = chain_draft(torch.zeros(n + 1).long(), torch.ones(n))
            later = Chance(u.uniform[2 - n :], u.noise[2 - n :], None)
            steps.append(decide(logits[: n + 1], draft, "fly", Sampling(1.0), later, values))
        if len(steps[0].path) == 1:  # refused at once: one token, the own one
            end = steps[1].nodes[0]
            counts[int(steps[1].nodes[1].id if len(steps[1].path) > 1 else end.emit)] += 1
            tv.append(end.tv)
    distribution = [each / sum(counts) for each in counts]
    assert tv == pytest.approx([abs(distribution[0] - 0.5)] * len(tv))


@pytest.mark.parametrize("rule", ["strict", "block"])
def test_lossless_rules_are_lossless_over_several_steps(rule: str) -> None:
    """The first two tokens of texts of three: drafts of two, then of one, with random numbers of
    each step's."""

    def p(text: tuple[int, ...]) -> Distribution:
        return [0.25, 0.75] if text and text[-1] == 0 else [0.75, 0.25]

    def q(_: tuple[int, ...]) -> Distribution:
        return [0.5, 0.5]

    def texts(text: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], float]]:
        count = 2 - len(text)
        if count <= 0:
            yield text[:2], 1.0
            return
        for x, accept in product(
            product((0, 1), repeat=count), product([0.125, 0.375, 0.625, 0.875], repeat=count)
        ):
            u = picked(
                *[[0]] * (count + 1), uniform=[*accept, 0.5], size=2
            )  # all chances are quarters
            verdict = verify(
                rule, x, lambda more: p(text + more), q, u
            )  # all corrections are certain
            emitted = (*x[: len(verdict.path) - 1], int(verdict.nodes[verdict.path[-1]].emit))
            for end, weight in texts(text + emitted):
                yield end, weight / 8**count

    weights = dict.fromkeys(product(range(2), repeat=2), 0.0)
    for text, weight in texts(()):
        weights[text] += weight
    assert weights == pytest.approx({pair: likelihood(pair, p) for pair in weights}, abs=1e-9)
