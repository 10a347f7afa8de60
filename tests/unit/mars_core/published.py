"""The rules as their sources define them, in the form of verification.md: a second implementation,
in plain numbers."""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from itertools import pairwise

from mars_core.rules import RULES
from tests.unit.mars_core.test_verification import V, values_of

Distribution = list[float]
TOP1 = ("mars-algorithm1", "topk-delta", "topk-ratio")  # emit top-1 instead of a rejected token


def one(token: int) -> Distribution:
    return [float(y == token) for y in range(V)]


def norm(weights: Sequence[float], otherwise: Distribution) -> Distribution:
    """norm((…)₊)."""
    positive = [max(0.0, each) for each in weights]
    return [each / sum(positive) for each in positive] if sum(positive) else otherwise


def ranked(z: Distribution) -> list[int]:
    return sorted(range(V), key=lambda y: -z[y])


def low_margin(rule: str, z: Distribution) -> bool:
    value, (first, second, *_) = values_of(rule), ranked(z)
    if rule == "mars-gap":
        return z[first] - z[second] < value["gap"]
    return (
        rule in ("mars", "mars-algorithm1")
        and z[first] > 0
        and z[second] / z[first] > value["theta"]
    )


def cascade(p: Distribution, q: Distribution, alpha: float) -> Distribution:
    """q·1_A + η·p."""
    trusted = [b if a >= (1 - alpha) * max(p) else 0.0 for a, b in zip(p, q, strict=True)]
    return [t + (1 - sum(trusted)) * a for t, a in zip(trusted, p, strict=True)]


def js(p: Distribution, q: Distribution) -> float:
    """Jensen-Shannon divergence in nats."""
    return sum(
        share * math.log(2 * share / (a + b)) / 2
        for a, b in zip(p, q, strict=True)
        for share in (a, b)
        if share
    )


def follows_drafter(rule: str, p: Distribution, q: Distribution) -> bool:
    """Whether the rule decodes q at the position."""
    value = values_of(rule)
    if rule == "fuzzy":
        return js(p, q) < value["divergence"]
    tv = sum(abs(a - b) for a, b in zip(p, q, strict=True)) / 2
    return rule == "cascade-opt" and max(q) >= max(p) - value["alpha"] * tv


def contrast(p: Distribution, q: Distribution) -> Distribution:
    """p^(1 + β)·q^(−β) of the plausible tokens, where no q is 0."""
    value = values_of("contrastive")
    return norm(
        [
            a ** (1 + value["beta"]) * b ** -value["beta"] if a >= value["alpha"] * max(p) else 0.0
            for a, b in zip(p, q, strict=True)
        ],
        p,
    )


def both_unsure(p: Distribution, q: Distribution) -> bool:
    """EASD refuses what is drafted."""
    value = values_of("easd")
    count = int(value["n"])
    common = set(ranked(p)[:count]) & set(ranked(q)[:count])
    spreads = [-sum(each * math.log(each) for each in d if each) for d in (p, q)]
    return min(spreads) > value["entropy"] and len(common) >= value["overlap"] * count


def raised(p: float) -> float:
    """Cactus: p of the drafted token becomes this."""
    return min(1.0, p + math.sqrt(2 * values_of("cactus")["delta"] * p * (1 - p)))


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
    drafter = drafter or q
    value, low, (first, second, *_) = values_of(rule), low_margin(rule, z), ranked(z)
    soft = norm([math.exp(each) for each in z], z)
    distribution, near = soft if cold else p, ranked(z)[: int(value.get("n", 0))]
    ratio = [a / b for a, b in zip(p, q or [1.0] * V, strict=True)]
    strict = [min(1.0, each) for each in ratio]
    match rule:
        case "mars" | "mars-gap" if low:
            return [float(y in (first, second)) for y in range(V)]
        case "mars-algorithm1":
            return [float(y == first or (low and y == second)) for y in range(V)]
        case "typical" if not cold:
            noise = -sum(each * math.log(each + 1e-5) for each in p)
            return [
                float(each > min(value["epsilon"], value["delta"] * math.exp(-noise))) for each in p
            ]
        case "topk-delta":
            return [float(y in near and soft[first] - soft[y] <= value["delta"]) for y in range(V)]
        case "topk-ratio":
            return [
                float(y in near and distribution[y] >= value["ratio"] * max(distribution))
                for y in range(V)
            ]
        case "threshold" if cold:
            return [float(each >= value["single"] or y == first) for y, each in enumerate(soft)]
        case "threshold":
            return [
                1.0 if r >= value["single"] else min(1.0, r / value["accumulated"]) for r in ratio
            ]
        case "lenience" if cold:
            return [float(each >= value["lenience"] * max(soft)) for each in soft]
        case "lenience":
            return [min(1.0, r / value["lenience"]) for r in ratio]
        case "ears":
            return [min(1.0, r + value["tolerance"] * (1 - max(p))) if r else 0.0 for r in ratio]
        case "entropy":
            spread = -sum(each * math.log(each) for each in p if each)
            return [
                min(1.0, r / min(math.exp(-value["alpha"] * spread), value["limit"])) for r in ratio
            ]
        case "ensemble":
            return [1 - value["weight"] + value["weight"] * each for each in strict]
        case "random":
            return [value["probability"] + (1 - value["probability"]) * each for each in strict]
        case "always":
            return [1.0] * V
        case "judge":  # of ``scores``
            return [each if y % 2 else 1.0 for y, each in enumerate(strict)]
        case "fuzzy" | "cascade-opt" if drafter and follows_drafter(rule, distribution, drafter):
            return [1.0] * V
        case "easd" if drafter and not cold and both_unsure(p, drafter):
            return [0.0] * V
        case "asd":  # of a draft of one token, before which nothing was spent
            most = min(value["gate"], value["budget"])
            return [1.0 if max(z) - each <= most else s for each, s in zip(z, strict, strict=True)]
        case "cactus":
            return [min(1.0, raised(a) / b) for a, b in zip(p, q or [1.0] * V, strict=True)]
        case "contrastive" if q:
            return [min(1.0, a / b) for a, b in zip(contrast(p, q), q, strict=True)]
        case "cascade-token" if q is None:
            return [
                1.0 if s >= (1 - value["alpha"]) * max(distribution) else a
                for s, a in zip(distribution, p, strict=True)
            ]
        case "cascade-token" if q is not None:
            return [min(1.0, a / b) for a, b in zip(cascade(p, q, value["alpha"]), q, strict=True)]
    return strict


def drawn_first(p: Distribution, tokens: list[int], accept: Distribution) -> Distribution:
    """P(xᵢ) = pᵢ + (1 − S)·fᵢ·Π(1 − fⱼ); the rest in proportion to p. f follows from the
    probability of acceptance."""
    distribution, missed, stays = list(p), max(0.0, 1 - sum(p[x] for x in tokens)), 1.0
    for x in tokens:
        relaxed = (accept[x] - p[x]) / (1 - p[x]) if accept[x] > p[x] else 0.0
        distribution[x] += missed * relaxed * stays
        stays *= 1 - relaxed
    return [each if y in tokens else each * stays for y, each in enumerate(distribution)]


def in_turn(tokens: list[int], accept: Distribution, rest: Distribution) -> Distribution:
    """P(xᵢ) = aᵢ·Π(1 − aⱼ); what is left goes to another distribution."""
    distribution, left = [0.0] * V, 1.0
    for x in tokens:
        distribution[x] += left * accept[x]
        left *= 1 - accept[x]
    return [each + left * other for each, other in zip(distribution, rest, strict=True)]


def after_node(
    rule: str,
    z: Distribution,
    p: Distribution,
    drafted: list[int],
    confidence: list[float],
    q: Distribution | None,
    cold: bool,
) -> Distribution:
    """The distribution after a node of a greedy draft; ``drafted`` are distinct, ``q`` is the
    drafter's at the node."""
    value, order = values_of(rule), ranked(z)
    accept = accepted(rule, z, p, cold=cold, drafter=q)
    first, second = order[:2]
    best = sorted(drafted, key=order.index)
    without = norm([0.0 if y in drafted else each for y, each in enumerate(p)], [0.0] * V)
    match rule:
        case "mars-reference" if (
            not cold
        ):  # as 5SSjw/MARS mars/model/utils.py evaluate_posterior has it
            runner_up = z[second] if p[second] else -math.inf
            if runner_up / (z[first] + 1e-10) > value["theta"]:
                return in_turn(drafted, [float(y in (first, second)) for y in range(V)], p)
            left = list(p)
            for x, c in zip(drafted, confidence, strict=True):
                accept[x] = min(1.0, left[x] / max(c, 1e-10))
                left[x] = max(0.0, left[x] - c)
                left = norm(left, left)
            return in_turn(drafted, accept, left)
        case "typical" if not cold:
            return in_turn(drafted, accept, p)
        case "mars-algorithm1" | "topk-delta" | "topk-ratio":
            return in_turn(best, accept, one(first))
        case "threshold" if cold:
            return in_turn(drafted, accept, without)
        case "threshold":
            distribution, summed, taken = [0.0] * V, 0.0, 0.0  # one uniform for all siblings
            for x in drafted:
                summed += p[x]
                reach = (
                    1.0
                    if p[x] >= value["single"]
                    else max(taken, min(1, summed / value["accumulated"]))
                )
                distribution[x], taken = reach - taken, reach
            return [
                each + (1 - taken) * other
                for each, other in zip(distribution, without, strict=True)
            ]
        case "contrastive" if cold:
            assert q is not None
            best_of = contrast(norm([math.exp(each) for each in z], z), q)
            return one(best_of.index(max(best_of)))
        case "easd":
            return in_turn(drafted, accept, without)
        case "ensemble" if cold:
            assert q is not None
            soft = norm([math.exp(each) for each in z], z)
            mixed = [
                value["weight"] * a + (1 - value["weight"]) * b
                for a, b in zip(soft, q, strict=True)
            ]
            return one(mixed.index(max(mixed)))
    return drawn_first(p, best if rule in ("mars", "mars-gap") else drafted, accept)


def correction(
    rule: str, z: Distribution, p: Distribution, q: Distribution, x: int
) -> Distribution:
    """R, from which a rejected sampled x is replaced."""
    if rule in TOP1:
        return one(ranked(z)[0])
    if rule == "typical" or low_margin(rule, z):
        return p
    aim = p
    match rule:
        case "cascade-token":
            aim = cascade(p, q, values_of(rule)["alpha"])
        case "contrastive":
            aim = contrast(p, q)
        case "cactus" if p[x] < 1:
            aim = [each * (1 - raised(p[x])) / (1 - p[x]) for each in p]
            aim[x] = raised(p[x])
    return norm([a - b for a, b in zip(aim, q, strict=True)], aim)


def sampled(
    rule: str, z: Distribution, p: Distribution, q: Distribution, protected: Container[int]
) -> tuple[Distribution, list[Distribution], Distribution]:
    """a(x), the R after each rejected x, and q·a + Σ q·(1 − a)·R, of a sampled draft. A protected
    token is accepted and replaced as by strict, except under rules that emit top-1."""
    accept, rest = accepted(rule, z, p, q), [correction(rule, z, p, q, x) for x in range(V)]
    for x in (each for each in range(V) if each in protected):
        accept[x] = min(1.0, p[x] / q[x])
        if not RULES[rule].emits_top1:
            rest[x] = norm([a - b for a, b in zip(p, q, strict=True)], p)
    lost = [b * (1 - a) for a, b in zip(accept, q, strict=True)]
    total = [
        q[y] * accept[y] + sum(each * r[y] for each, r in zip(lost, rest, strict=True))
        for y in range(V)
    ]
    return accept, rest, total


def joint(p: Distribution, q: Distribution) -> list[Distribution]:
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

    def share(a: int, b: int) -> float:
        if a == b:
            drawn = p[a] and q[a]
            return (
                1 / sum(max(x / p[a], y / q[a]) for x, y in zip(p, q, strict=True))
                if drawn
                else 0.0
            )
        there = ratio[a] < ratio[b] and q[a] * p[b]
        return q[a] * p[b] * integral(ratio[a], ratio[b]) if there else 0.0

    return [[share(a, b) for b in range(len(p))] for a in range(len(p))]


def coupled(
    rule: str, z: Distribution, p: Distribution, q: Distribution, protected: Container[int]
) -> tuple[Distribution, float]:
    """P of the emitted token of a coupled chain, and how probably a token is relaxed: y, or x where
    the rule relaxes it, or what a rule emits that has no position for y. A protected draft is
    accepted where it is y."""
    distribution, together, most = [0.0] * V, joint(p, q), 0.0
    for a in (each for each in range(V) if q[each]):
        alone = after_node(rule, z, p, [a], [q[a]], q, False)  # of a greedy draft of this token
        relaxed = (alone[a] - p[a]) / (1 - p[a]) if alone[a] > p[a] < 1 else 0.0
        relaxed = 0.0 if a in protected else relaxed
        most += relaxed * (q[a] - together[a][a])
        for b in range(V):
            if RULES[rule].emits_top1 and a not in protected:
                distribution[b] += q[a] * alone[b]
            elif RULES[rule].emits_top1 and a != b:
                distribution[ranked(z)[0]] += together[a][b]
            else:
                distribution[a] += together[a][b] * (relaxed if a != b else 1)
                distribution[b] += together[a][b] * (1 - relaxed) * (a != b)
    return distribution, most
