"""Decisions of mars-reference against the released code of MARS."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from mars_core.sampling import draw, target_distribution
from mars_core.types import Sampling
from mars_core.verification import chain_draft
from tests.unit.mars_core.test_verification import SAMPLINGS, TREES, case, chance, decide


class OneUniform:
    """Uniforms for siblings in turn, made from one: (u − A)/(1 − A), where A is the chance that an earlier one was kept."""

    def __init__(self, u: float) -> None:
        self._u, self._taken = u, 0.0

    def __call__(self, chance: float) -> float:
        u = (self._u - self._taken) / (1 - self._taken)
        self._taken += (1 - self._taken) * chance
        return u


def evaluate_posterior(
    warped: list[float], order: list[int], tokens: list[int], confidence: list[float], theta: float, coin: OneUniform
) -> tuple[int | None, list[float]]:
    """One node of 5SSjw/MARS mars/model/utils.py: the kept token, else the distribution that the next one is drawn from.

    ``order``: all tokens by falling logit (torch leaves open which of several −inf is the second).
    """
    weights = [math.exp(w - warped[order[0]]) for w in warped]
    whole = [weight / sum(weights) for weight in weights]
    left = list(whole)
    first, second = order[:2]
    relax = warped[second] / (warped[first] + 1e-10) > theta
    for token, q in zip(tokens, confidence, strict=True):
        if relax:
            if token in (first, second):
                return token, whole
            continue
        accept = min(1.0, left[token] / max(q, 1e-10))
        if coin(accept) <= accept:
            return token, whole
        left[token] = max(0.0, left[token] - q)
        left = [each / sum(left) for each in left]
    return None, left


@pytest.mark.parametrize("shift", [4.0, 0.0, -4.0])
@pytest.mark.parametrize("sampling", SAMPLINGS[1:], ids=str)
@pytest.mark.parametrize("tree", TREES)
def test_mars_reference_decides_as_the_released_code(tree: str, sampling: Sampling, shift: float) -> None:
    for seed in range(8):
        logits, draft = case(tree, seed, shift)
        u, p, theta = chance(draft, seed), target_distribution(logits, sampling), (0.6, 0.97)[seed % 2]
        confidence = torch.rand(draft.size, generator=torch.Generator().manual_seed(seed)).double()
        draft = replace(draft, q=0.2 + 0.8 * confidence)
        verdict = decide(logits, draft, "mars-reference", sampling, u, {"theta": theta})
        for node, children in enumerate(verdict.nodes.children):
            warped = (logits[node] / sampling.temperature).masked_fill(p[node] == 0, -math.inf)
            drafted: dict[int, float] = {}
            for child in children:
                drafted.setdefault(int(draft.ids[child]), float(draft.q[child - 1]))
            mine = u[draft.depths[node]]
            token, distribution = evaluate_posterior(
                warped.tolist(), logits[node].argsort(descending=True).tolist(), list(drafted), list(drafted.values()),
                theta, OneUniform(float(mine[1])),
            )  # fmt: skip
            kept = [int(verdict.nodes[child].id) for child in children if verdict.nodes[child].keep]
            assert kept == ([] if token is None else [token])
            drawn = int(draw(torch.tensor([distribution], dtype=torch.float64), mine[:1]).ids)
            assert token is not None or verdict.nodes[node].emit == drawn


def test_mars_reference_keeps_an_impossible_runner_up_where_all_logits_are_negative() -> None:
    """Top-k leaves the best alone, its ratio −∞/z₁ is +∞, and the token it filtered away is kept for sure."""
    logits = torch.tensor([[-1.0, -9.0], [0.0, 0.0]], dtype=torch.float64)
    draft = chain_draft(torch.tensor([0, 1]), torch.tensor([0.1], dtype=torch.float64))
    u = torch.full((2, 3), 0.99, dtype=torch.float64)
    root, drafted = decide(logits, draft, "mars-reference", Sampling(1.0, top_k=1), u).nodes
    assert (drafted.keep, drafted.p, root.tv, root.kl) == (1, 0, 1, math.inf)
    logits[0] += 5
    root, drafted = decide(logits, draft, "mars-reference", Sampling(1.0, top_k=1), u).nodes
    assert (drafted.keep, root.emit, root.tv, root.kl) == (0, 0, 0, 0)
