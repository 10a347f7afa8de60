"""Greedy drafts: decisions have the published distribution, telemetry is its distance from p,
strict has none, others become it."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from mars_core.rules import RULES, Siblings
from mars_core.sampling import Chance, draw, target_distribution
from mars_core.types import DraftMode, Sampling
from mars_core.verification import Draft, chain_draft, judge, walk
from tests.unit.mars_core.published import after_node
from tests.unit.mars_core.test_verification import (
    SAMPLINGS,
    TREES,
    V,
    case,
    chance,
    children_of,
    column,
    columns,
    decide,
    divergence,
    drawn_case,
    every_sampling,
    largest_ratio,
    largest_shift,
    picked,
    scores,
    takes,
    total_variation,
    values_of,
)

LOSSLESS = ("strict", "block")
GRID = 12  # pieces into which the accepting uniform is cut first
NARROW = 1e-11  # where the decision changes, is known to this
# fly looks ahead: test_verification_chains.py
RULES_BY_TOKEN = [
    name for name, rule in RULES.items() if rule.modes and name != "fly" and rule.charge is None
]
COUPLED = [
    name
    for name in RULES_BY_TOKEN
    if RULES[name].siblings is not Siblings.IN_TURN or name == "threshold"
]


def outcomes(
    logits: Tensor, draft: Draft, rule: str, sampling: Sampling, uniform: Tensor, noise: Tensor
) -> Tensor:
    """The token after each node in each of C trials, [C, N + 1]; uniform [C, N + 1], noise [C, N +
    1, V] for each node.

    All trials are judged in one draft: copies of a tree hang on one root, copies of a chain follow
    each other (the token after a leaf means nothing there).
    """
    count, nodes = len(uniform), draft.size + 1
    q, ids = torch.cat([draft.q[:1], draft.q]).repeat(count), draft.ids.repeat(count)
    uniform, noise = uniform.reshape(-1), noise.reshape(-1, V)
    if draft.is_chain:
        assert draft.distribution is not None
        distribution = torch.cat([draft.distribution[:1], draft.distribution]).repeat(count, 1)
        many, first, z = chain_draft(ids, q[1:], distribution[1:]), 0, logits.repeat(count, 1)
    else:
        offsets = torch.arange(count)[:, None] * nodes + 1
        parents = torch.cat(
            [torch.zeros(count, 1, dtype=torch.long), draft.parents + offsets], 1
        ).reshape(-1)
        size = count * nodes
        many = Draft(torch.cat([ids[:1], ids]), parents, torch.arange(size + 1), q, size, False)
        first, z = 1, torch.cat([logits[:1], logits.repeat(count, 1)])
        uniform, noise = torch.cat([uniform[:1], uniform]), torch.cat([noise[:1], noise])
    u = Chance(uniform, noise if sampling.temperature else None, None)
    of_rule = RULES[rule], values_of(rule), sampling, DraftMode.GREEDY, u, False
    answer = judge(z, many, *of_rule, score=scores(many))
    rows = walk(answer.tolist()).nodes
    accepted, token, after = (
        torch.tensor(rows.column(name)[first:], dtype=torch.float64).view(count, nodes)
        for name in ("keep", "id", "emit")
    )
    for node, children in enumerate(children_of(draft.parents)):
        for child in reversed(children):
            after[:, node] = torch.where(accepted[:, child] > 0, token[:, child], after[:, node])
    return after


class Cell(NamedTuple):
    """Noise with which these tokens are the first of a node, in this order, and how probable that
    is."""

    node: int
    first: tuple[int, ...]
    weight: float


class Shift(NamedTuple):
    """The distribution of the token after a node, and how probably it is not the target's token."""

    distribution: list[float]
    changed: float


class Piece(NamedTuple):
    """An interval of the accepting uniform, and the tokens at its ends."""

    cell: Cell
    low: float
    high: float
    at_low: int
    at_high: int


def cells(node: int, p: Tensor, drafted: list[int]) -> list[Cell]:
    """The target's token, and if it is drafted also the first one that is not: a rule may
    replace it by that."""
    rest = p.clone()
    rest[drafted] = 0
    others = [(b, float(rest[b] / rest.sum())) for b in range(V) if rest[b] > 0]
    result = []
    for drawn, weight in enumerate(p.tolist()):
        if drawn not in drafted or not others:
            result.append(Cell(node, (drawn,), weight))
        else:
            result += [Cell(node, (drawn, other), weight * share) for other, share in others]
    return [cell for cell in result if cell.weight > 1e-13]


def tokens_at(
    points: list[tuple[Cell, float]], logits: Tensor, draft: Draft, rule: str, sampling: Sampling
) -> list[int]:
    """The token after the cell's node for each pair of noise and accepting uniform."""
    trials = [0] * (draft.size + 1)
    trial_and_node = []
    for cell, _ in points:
        trial_and_node.append((trials[cell.node], cell.node))
        trials[cell.node] += 1
    uniform = torch.full((max(trials), draft.size + 1), 0.5, dtype=torch.float64)
    noise = torch.ones(*uniform.shape, V, dtype=torch.float64)
    for (cell, accept), (trial, node) in zip(points, trial_and_node, strict=True):
        uniform[trial, node], noise[trial, node] = accept, picked(cell.first).noise
    after = outcomes(logits, draft, rule, sampling, uniform, noise).tolist()
    return [int(after[trial][node]) for trial, node in trial_and_node]


def enumerated(rule: str, tree: str, sampling: Sampling, seed: int) -> dict[int, Shift]:
    """For each node with children what the code does, integrated over noise and accepting
    uniform."""
    logits, draft = case(tree, seed)
    p = target_distribution(logits, sampling)
    children = {
        node: children_at
        for node, children_at in enumerate(children_of(draft.parents))
        if children_at
    }
    distributions, changed = {node: [0.0] * V for node in children}, dict.fromkeys(children, 0.0)
    ends = [at / GRID for at in range(GRID)] + [1 - 2**-53]
    points = [
        (cell, end)
        for node, drafted in children.items()
        for cell in cells(node, p[node], draft.ids[drafted].tolist())
        for end in ends
    ]
    children_at = tokens_at(points, logits, draft, rule, sampling)
    pieces = [
        Piece(points[at][0], points[at][1], points[at + 1][1], children_at[at], children_at[at + 1])
        for at in range(len(points) - 1)
        if points[at][1] < points[at + 1][1]
    ]
    while pieces:
        unsure = []
        for piece in pieces:
            if piece.at_low == piece.at_high or piece.high - piece.low < NARROW:
                weight = piece.cell.weight * (piece.high - piece.low)
                distributions[piece.cell.node][piece.at_low] += weight
                changed[piece.cell.node] += weight * (piece.at_low != piece.cell.first[0])
            else:
                unsure.append(piece)
        middles = [(piece.cell, (piece.low + piece.high) / 2) for piece in unsure]
        children_at = tokens_at(middles, logits, draft, rule, sampling) if middles else []
        pieces = [
            half
            for piece, (_, u), token in zip(unsure, middles, children_at, strict=True)
            for half in (piece._replace(high=u, at_high=token), piece._replace(low=u, at_low=token))
        ]
    return {
        node: Shift(distribution, changed[node]) for node, distribution in distributions.items()
    }


@pytest.mark.parametrize(
    ("rule", "tree", "seed", "sampling"),
    [
        (rule, tree, seed, sampling)
        for rule, tree in product(RULES_BY_TOKEN, TREES)
        for seed, sampling in enumerate(SAMPLINGS)
        if takes(rule, tree, sampling)
    ],
    ids=str,
)
def test_decisions_have_the_published_distribution_and_tv_is_its_distance_from_p(
    rule: str, tree: str, sampling: Sampling, seed: int
) -> None:
    """And a coupled rule replaces the target's token no oftener than two variables of distributions
    P and p must differ: TV(P, p)."""
    logits, draft = case(tree, seed)
    p, children = target_distribution(logits, sampling).tolist(), children_of(draft.parents)
    decoded_ = decide(logits, draft, rule, sampling, chance(draft, seed))
    nodes = decoded_.nodes
    for node, (distribution, changed) in enumerated(rule, tree, sampling, seed).items():
        drafted: dict[int, float] = {}
        for child in children[node]:  # a sibling that repeats another is not there
            drafted.setdefault(int(draft.ids[child]), float(draft.q[child - 1]))
        z, q = (
            logits[node].tolist(),
            None if draft.distribution is None else draft.distribution[node].tolist(),
        )
        cold = sampling.temperature == 0
        expected = after_node(rule, z, p[node], list(drafted), list(drafted.values()), q, cold)
        assert distribution == pytest.approx(expected, abs=1e-15 if rule in LOSSLESS else 1e-9)
        assert nodes[node].tv == pytest.approx(total_variation(distribution, p[node]), abs=1e-9)
        assert nodes[node].kl == pytest.approx(divergence(distribution, p[node]), abs=1e-9)
        largest, emitted = largest_ratio(expected, p[node]), int(nodes[node].emit)
        assert nodes[node].overshoot == pytest.approx(largest, rel=1e-6)
        assert nodes[node].mass == pytest.approx(expected[emitted], abs=1e-7)
        for child in children[node]:
            mass = decoded_.verdict.nodes.drafted(child).mass
            assert mass == pytest.approx(expected[int(draft.ids[child])], abs=1e-7)
        if rule in LOSSLESS:
            assert changed == 0
        elif rule in COUPLED:
            assert changed == pytest.approx(total_variation(distribution, p[node]), abs=1e-9)


@every_sampling
@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("rule", LOSSLESS)
def test_strict_follows_the_tokens_that_the_target_draws_and_its_tv_is_0(
    rule: str, tree: str, sampling: Sampling
) -> None:
    for seed in range(10):
        logits, draft, u = drawn_case(tree, seed)
        rows = columns(logits.float(), draft, rule, sampling, u)  # as the models give them
        assert (
            column(rows, "tv")
            == column(rows, "kl")
            == column(rows, "forgiveness")
            == [0] * (draft.size + 1)
        )
        p = target_distribution(logits.float(), sampling)
        drawn = (
            draw(p, u.noise[draft.depths]).ids
            if sampling.temperature and u.noise is not None
            else p.argmax(-1)
        ).tolist()
        assert column(rows, "emit") == column(rows, "own") == drawn


STRICT_LIMITS: list[tuple[str, dict[str, float]]] = [
    ("block", {}),
    ("lenience", {"lenience": 1}),
    ("ears", {"tolerance": 0}),
    ("entropy", {"alpha": 0, "limit": 1}),
    ("threshold", {"single": 1, "accumulated": 1}),
    ("ensemble", {"weight": 1}),
    ("mars", {"theta": 1}),
    ("mars-gap", {"gap": 0}),
    ("random", {"probability": 0}),
    ("cactus", {"delta": 0}),
    ("fuzzy", {"divergence": 0}),
    ("easd", {"entropy": 20}),
]
GREEDY_LIMITS: list[tuple[str, dict[str, float]]] = [
    ("mars-algorithm1", {"theta": 1}),
    ("topk-delta", {"n": 1}),
    ("topk-delta", {"delta": 0}),
    ("topk-ratio", {"n": 1}),
    ("topk-ratio", {"ratio": 1}),
]


def decided(rows: Tensor) -> list[list[float]]:
    return [column(rows, "keep"), column(rows, "emit")]


@every_sampling
@pytest.mark.parametrize(("rule", "values"), STRICT_LIMITS, ids=str)
def test_limits_of_the_rules_are_strict_decision_by_decision(
    rule: str, values: dict[str, float], sampling: Sampling
) -> None:
    for tree, (seed, (dtype, rounding)) in product(
        TREES, enumerate([(torch.float64, 1e-12), (torch.float32, 1e-7)])
    ):
        if takes(rule, tree):
            logits, draft = case(tree, seed, shift=8.0)  # all positive, as θ = 1 requires
            z, u = logits.to(dtype), chance(draft, seed)
            rows = columns(z, draft, rule, sampling, u, values)
            assert decided(rows) == decided(columns(z, draft, "strict", sampling, u))
            assert largest_shift(rows) < rounding


@every_sampling
@pytest.mark.parametrize(("rule", "values"), GREEDY_LIMITS, ids=str)
def test_limits_of_the_rules_that_emit_top1_are_greedy_decoding(
    rule: str, values: dict[str, float], sampling: Sampling
) -> None:
    for tree in TREES:
        for seed in range(2):
            logits, draft, u = drawn_case(tree, seed, shift=8.0)
            rows = columns(logits.float(), draft, rule, sampling, u, values)
            assert decided(rows) == decided(
                columns(logits.float(), draft, "strict", Sampling(0.0), u)
            )
