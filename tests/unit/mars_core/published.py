"""The rules as their sources define them, in the form of verification.md: a second implementation,
in numpy, one position at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.spatial.distance import jensenshannon
from scipy.special import softmax
from scipy.stats import entropy

from mars_core.rules import RULES
from tests.unit.mars_core.test_verification import V, values_of

Distribution = np.ndarray[Any, np.dtype[np.float64]]  # [V]
TOP1 = ("mars-algorithm1", "topk-delta", "topk-ratio")  # emit top-1 instead of a rejected token


def only(*tokens: int) -> Distribution:
    """Return 1 for these tokens and 0 for others."""
    return np.isin(np.arange(V), tokens).astype(float)


def norm(weights: Distribution, otherwise: Distribution) -> Distribution:
    """norm((…)₊)."""
    positive = np.maximum(weights, 0)
    return positive / positive.sum() if positive.sum() else otherwise


def ranked(z: Distribution) -> list[int]:
    return np.argsort(-z, kind="stable").tolist()


def low_margin(rule: str, z: Distribution) -> bool:
    value, (first, second, *_) = values_of(rule), z[ranked(z)]
    if rule == "mars-gap":
        return bool(first - second < value["gap"])
    return rule in ("mars", "mars-algorithm1") and first > 0 and second / first > value["theta"]


def cascade(p: Distribution, q: Distribution, alpha: float) -> Distribution:
    """q·1_A + η·p."""
    trusted = np.where(p >= (1 - alpha) * p.max(), q, 0)
    return trusted + (1 - trusted.sum()) * p


def follows_drafter(rule: str, p: Distribution, q: Distribution) -> bool:
    """Whether the rule decodes q at the position."""
    value = values_of(rule)
    if rule == "fuzzy":
        return bool(jensenshannon(p, q) ** 2 < value["divergence"])
    return rule == "cascade-opt" and q.max() >= p.max() - value["alpha"] * np.abs(p - q).sum() / 2


def contrast(p: Distribution, q: Distribution) -> Distribution:
    """p^(1 + β)·q^(−β) of the plausible tokens, where no q is 0."""
    value = values_of("contrastive")
    plausible = p >= value["alpha"] * p.max()
    return norm(np.where(plausible, p ** (1 + value["beta"]) * q ** -value["beta"], 0), p)


def both_unsure(p: Distribution, q: Distribution) -> bool:
    """EASD refuses what is drafted."""
    value = values_of("easd")
    count = int(value["n"])
    common = set(ranked(p)[:count]) & set(ranked(q)[:count])
    spread = min(entropy(p), entropy(q))
    return bool(spread > value["entropy"]) and len(common) >= value["overlap"] * count


def raised(p: Any) -> Any:
    """Cactus: p of the drafted token becomes this."""
    return np.minimum(1, p + np.sqrt(2 * values_of("cactus")["delta"] * p * (1 - p)))


def accepted(
    rule: str,
    z: Distribution,
    p: Distribution,
    q: Distribution | None = None,
    *,
    cold: bool = False,
    drafter: Distribution | None = None,
) -> Distribution:
    """a(x) of every token; without q for greedy drafts, ``cold`` means T = 0; ``drafter``: the
    drafter's distribution, q unless the draft is greedy."""
    drafter = q if drafter is None else drafter
    value, low, (first, second, *_) = values_of(rule), low_margin(rule, z), ranked(z)
    soft = softmax(z)
    distribution, near = soft if cold else p, only(*ranked(z)[: int(value.get("n", 0))])
    drafted = np.ones(V) if q is None else q
    ratio = p / drafted
    strict = np.minimum(1, ratio)
    match rule:
        case "mars" | "mars-gap" if low:
            return only(first, second)
        case "mars-algorithm1":
            return only(first, second) if low else only(first)
        case "typical" if not cold:
            noise = -(p * np.log(p + 1e-5)).sum()
            return (p > min(value["epsilon"], value["delta"] * math.exp(-noise))).astype(float)
        case "topk-delta":
            return near * (soft[first] - soft <= value["delta"])
        case "topk-ratio":
            return near * (distribution >= value["ratio"] * distribution.max())
        case "threshold" if cold:
            return np.maximum(soft >= value["single"], only(first))
        case "threshold":
            return np.where(
                ratio >= value["single"], 1, np.minimum(1, ratio / value["accumulated"])
            )
        case "lenience" if cold:
            return (soft >= value["lenience"] * soft.max()).astype(float)
        case "lenience":
            return np.minimum(1, ratio / value["lenience"])
        case "ears":
            return np.where(ratio > 0, np.minimum(1, ratio + value["tolerance"] * (1 - p.max())), 0)
        case "entropy":
            return np.minimum(
                1, ratio / min(math.exp(-value["alpha"] * entropy(p)), value["limit"])
            )
        case "ensemble":
            return 1 - value["weight"] + value["weight"] * strict
        case "random":
            return value["probability"] + (1 - value["probability"]) * strict
        case "always":
            return np.ones(V)
        case "judge":  # of ``scores``
            return np.where(np.arange(V) % 2, strict, 1)
        case "fuzzy" | "cascade-opt" if drafter is not None and follows_drafter(
            rule, distribution, drafter
        ):
            return np.ones(V)
        case "easd" if drafter is not None and not cold and both_unsure(p, drafter):
            return np.zeros(V)
        case "asd":  # of a draft of one token, before which nothing was spent
            return np.where(z.max() - z <= min(value["gate"], value["budget"]), 1, strict)
        case "cactus":
            return np.minimum(1, raised(p) / drafted)
        case "contrastive" if q is not None:
            return np.minimum(1, contrast(p, q) / q)
        case "cascade-token" if q is None:
            return np.where(distribution >= (1 - value["alpha"]) * distribution.max(), 1, p)
        case "cascade-token" if q is not None:
            return np.minimum(1, cascade(p, q, value["alpha"]) / q)
    return strict


def drawn_first(p: Distribution, tokens: list[int], accept: Distribution) -> Distribution:
    """P(xᵢ) = pᵢ + (1 − S)·fᵢ·Π(1 − fⱼ); the rest in proportion to p. f follows from the
    probability of acceptance."""
    distribution, missed, stays = p.copy(), max(0.0, 1 - p[tokens].sum()), 1.0
    for x in tokens:
        relaxed = (accept[x] - p[x]) / (1 - p[x]) if accept[x] > p[x] else 0.0
        distribution[x] += missed * relaxed * stays
        stays *= 1 - relaxed
    return np.where(only(*tokens) > 0, distribution, distribution * stays)


def in_turn(tokens: list[int], accept: Distribution, rest: Distribution) -> Distribution:
    """P(xᵢ) = aᵢ·Π(1 − aⱼ); what is left goes to another distribution."""
    distribution, left = np.zeros(V), 1.0
    for x in tokens:
        distribution[x] += left * accept[x]
        left *= 1 - accept[x]
    return distribution + left * rest


def after_node(
    rule: str,
    z: Distribution,
    p: Distribution,
    drafted: list[int],
    confidence: Sequence[float],
    q: Distribution | None,
    cold: bool,
) -> Distribution:
    """The distribution after a node of a greedy draft; ``drafted`` are distinct, ``q`` is the
    drafter's at the node."""
    value, order, soft = values_of(rule), ranked(z), softmax(z)
    accept = accepted(rule, z, p, cold=cold, drafter=q)
    first, second = order[:2]
    best = sorted(drafted, key=order.index)
    without = norm(p * (1 - only(*drafted)), np.zeros(V))
    match rule:
        case "mars-reference" if (
            not cold
        ):  # as 5SSjw/MARS mars/model/utils.py evaluate_posterior has it
            runner_up = z[second] if p[second] else -math.inf
            if runner_up / (z[first] + 1e-10) > value["theta"]:
                return in_turn(drafted, only(first, second), p)
            left = p.copy()
            for x, c in zip(drafted, confidence, strict=True):
                accept[x] = min(1.0, left[x] / max(c, 1e-10))
                left[x] = max(0.0, left[x] - c)
                left = norm(left, left)
            return in_turn(drafted, accept, left)
        case "typical" if not cold:
            return in_turn(drafted, accept, p)
        case "mars-algorithm1" | "topk-delta" | "topk-ratio":
            return in_turn(best, accept, only(first))
        case "threshold" if cold:
            return in_turn(drafted, accept, without)
        case "threshold":
            distribution, summed, taken = np.zeros(V), 0.0, 0.0  # one uniform for all siblings
            for x in drafted:
                summed += p[x]
                always = p[x] >= value["single"]
                reach = 1.0 if always else max(taken, min(1, summed / value["accumulated"]))
                distribution[x], taken = reach - taken, reach
            return distribution + (1 - taken) * without
        case "contrastive" if cold:
            assert q is not None
            return only(int(contrast(soft, q).argmax()))
        case "easd":
            return in_turn(drafted, accept, without)
        case "ensemble" if cold:
            assert q is not None
            return only(int((value["weight"] * soft + (1 - value["weight"]) * q).argmax()))
    return drawn_first(p, best if rule in ("mars", "mars-gap") else drafted, accept)


def correction(
    rule: str, z: Distribution, p: Distribution, q: Distribution, x: int
) -> Distribution:
    """R, from which a rejected sampled x is replaced."""
    if rule in TOP1:
        return only(ranked(z)[0])
    if rule == "typical" or low_margin(rule, z):
        return p
    aim = p
    match rule:
        case "cascade-token":
            aim = cascade(p, q, values_of(rule)["alpha"])
        case "contrastive":
            aim = contrast(p, q)
        case "cactus" if p[x] < 1:
            aim = p * (1 - raised(p[x])) / (1 - p[x])
            aim[x] = raised(p[x])
    return norm(aim - q, aim)


def sampled(
    rule: str, z: Distribution, p: Distribution, q: Distribution, protected: Sequence[int]
) -> tuple[Distribution, list[Distribution], Distribution]:
    """a(x), the R after each rejected x, and q·a + Σ q·(1 − a)·R, of a sampled draft. A protected
    token is accepted and replaced as by strict, except under rules that emit top-1."""
    accept, rest = accepted(rule, z, p, q), [correction(rule, z, p, q, x) for x in range(V)]
    for x in protected:
        accept[x] = min(1.0, p[x] / q[x])
        if not RULES[rule].emits_top1:
            rest[x] = norm(p - q, p)
    return accept, rest, q * accept + (q * (1 - accept)) @ np.stack(rest)


def joint(p: Distribution, q: Distribution) -> Distribution:
    """P(x = a, y = b), [V, V]: q_a·p_b·∫ dρ/M(ρ)² over p_a/q_a < ρ < p_b/q_b with M(ρ) =
    Σ max(q·ρ, p), which is linear between the ratios; the diagonal is 1/Σ_i max(p_i/p_a, q_i/q_a)."""
    ratio = [a / b if b else math.inf for a, b in zip(p, q, strict=True)]

    def mass(at: float) -> float:
        return float(np.maximum(q * at, p).sum())

    def integral(low: float, high: float) -> float:
        points = [low, *sorted(each for each in ratio if low < each < high), high]
        return sum(
            (b - a) / (mass(a) * mass(b)) if b < math.inf else 1 / mass(a)
            for a, b in pairwise(points)
        )

    def share(a: int, b: int) -> float:
        if a == b:
            return 1 / float(np.maximum(p / p[a], q / q[a]).sum()) if p[a] and q[a] else 0.0
        there = ratio[a] < ratio[b] and q[a] * p[b]
        return float(q[a] * p[b] * integral(ratio[a], ratio[b])) if there else 0.0

    return np.array([[share(a, b) for b in range(len(p))] for a in range(len(p))])


def coupled(
    rule: str, z: Distribution, p: Distribution, q: Distribution, protected: Sequence[int]
) -> tuple[Distribution, float]:
    """P of the emitted token of a coupled chain, and how probably a token is relaxed: y, or x where
    the rule relaxes it, or what a rule emits that has no position for y. A protected draft is
    accepted where it is y."""
    distribution, together, most = np.zeros(V), joint(p, q), 0.0
    for a in np.flatnonzero(q).tolist():
        alone = after_node(rule, z, p, [a], [q[a]], q, False)  # of a greedy draft of this token
        relaxed = (alone[a] - p[a]) / (1 - p[a]) if alone[a] > p[a] < 1 else 0.0
        relaxed = 0.0 if a in protected else relaxed
        most += relaxed * (q[a] - together[a, a])
        other = together[a] * (1 - only(a))  # the target draws another token
        if RULES[rule].emits_top1 and a not in protected:
            distribution += q[a] * alone
        elif RULES[rule].emits_top1:
            distribution += only(a) * together[a, a] + only(ranked(z)[0]) * other.sum()
        else:
            distribution += only(a) * (together[a, a] + relaxed * other.sum())
            distribution += (1 - relaxed) * other
    return distribution, most
