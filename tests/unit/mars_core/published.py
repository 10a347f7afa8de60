"""The distribution after a node of a greedy draft as the sources of the rules define it, in the form of verification.md."""

from __future__ import annotations

import math

from tests.unit.mars_core.test_verification import V, values_of


def own_first(p: list[float], tokens: list[int], forgiven: list[float]) -> list[float]:
    """P(xᵢ) = pᵢ + (1 − S)·fᵢ·Π(1 − fⱼ); the rest in proportion to p."""
    distribution, missed, stays = list(p), max(0.0, 1 - sum(p[x] for x in tokens)), 1.0
    for x, f in zip(tokens, forgiven, strict=True):
        distribution[x] += missed * f * stays
        stays *= 1 - f
    return [each if y in tokens else each * stays for y, each in enumerate(distribution)]


def in_turn(tokens: list[int], accept: list[float], rest: list[float]) -> list[float]:
    """P(xᵢ) = aᵢ·Π(1 − aⱼ); what is left goes to another distribution."""
    distribution, left = [0.0] * V, 1.0
    for x, a in zip(tokens, accept, strict=True):
        distribution[x] += left * a
        left *= 1 - a
    return [each + left * other for each, other in zip(distribution, rest, strict=True)]


def relaxed(a: float, p: float) -> float:
    """The forgiveness of a rule that is published as an acceptance probability."""
    return (min(1, a) - p) / (1 - p) if min(1, a) > p else 0.0


def one(token: int) -> list[float]:
    return [float(y == token) for y in range(V)]


def published(
    rule: str,
    z: list[float],
    p: list[float],
    drafted: list[int],
    confidence: list[float],
    q: list[float] | None,
    cold: bool,
) -> list[float]:
    """The distribution after a node as the sources define it, in the form of verification.md; ``drafted`` are distinct, ``cold`` means T
    = 0."""
    value = values_of(rule)
    total = sum(math.exp(each) for each in z)
    soft = [math.exp(each) / total for each in z]
    shown = soft if cold else p
    order = sorted(range(V), key=lambda y: -z[y])
    first, second = order[:2]
    best = sorted(drafted, key=order.index)
    gap, ratio = z[first] - z[second], z[second] / z[first]
    without = [0.0 if y in drafted else each for y, each in enumerate(p)]
    without = [each / sum(without) for each in without] if sum(without) else without
    spread = -sum(each * math.log(each) for each in p if each)
    match rule:
        case "mars":
            return own_first(p, best, [z[first] > 0 and ratio > value["theta"] and x in (first, second) for x in best])
        case "mars-gap":
            return own_first(p, best, [gap < value["gap"] and x in (first, second) for x in best])
        case "mars-algorithm1":
            low = z[first] > 0 and ratio > value["theta"]
            return in_turn(best, [x == first or (low and x == second) for x in best], one(first))
        case "mars-reference" if not cold:
            runner_up = z[second] if p[second] else -math.inf
            if runner_up / (z[first] + 1e-10) > value["theta"]:
                return in_turn(drafted, [x in (first, second) for x in drafted], p)
            accept, tried = [], 0.0
            for x, c in zip(drafted, confidence, strict=True):
                accept.append(min(1.0, p[x] / (1 - tried) / c) if p[x] else 0.0)
                tried += p[x]
            return in_turn(drafted, accept, without)
        case "typical" if not cold:
            noise = -sum(each * math.log(each + 1e-5) for each in p)
            bar = min(value["epsilon"], value["delta"] * math.exp(-noise))
            return in_turn(drafted, [p[x] > bar for x in drafted], p)
        case "topk-delta":
            near = [x for x in order[: int(value["n"])] if soft[first] - soft[x] <= value["delta"]]
            return in_turn(best, [x in near for x in best], one(first))
        case "topk-ratio":
            near = [x for x in order[: int(value["n"])] if shown[x] >= value["ratio"] * max(shown)]
            return in_turn(best, [x in near for x in best], one(first))
        case "threshold" if cold:
            return in_turn(drafted, [soft[x] >= value["single"] or x == first for x in drafted], without)
        case "threshold":
            distribution, summed, taken = [0.0] * V, 0.0, 0.0  # one coin for all siblings
            for x in drafted:
                summed += p[x]
                reach = 1.0 if p[x] >= value["single"] else max(taken, min(1, summed / value["accumulated"]))
                distribution[x], taken = reach - taken, reach
            return [each + (1 - taken) * other for each, other in zip(distribution, without, strict=True)]
        case "lenience" if cold:
            return own_first(p, drafted, [soft[x] >= value["lenience"] * max(soft) for x in drafted])
        case "lenience":
            return own_first(p, drafted, [relaxed(p[x] / value["lenience"], p[x]) for x in drafted])
        case "ears":
            raised = [p[x] + value["tolerance"] * (1 - max(p)) if p[x] else 0.0 for x in drafted]
            return own_first(p, drafted, [relaxed(a, p[x]) for x, a in zip(drafted, raised, strict=True)])
        case "entropy":
            bar = min(math.exp(-value["alpha"] * spread), value["limit"])
            return own_first(p, drafted, [relaxed(p[x] / bar, p[x]) for x in drafted])
        case "ensemble" if cold:
            assert q is not None
            mixed = [value["weight"] * a + (1 - value["weight"]) * b for a, b in zip(soft, q, strict=True)]
            return one(mixed.index(max(mixed)))
        case "ensemble":
            return own_first(p, drafted, [1 - value["weight"] for _ in drafted])
        case "cascade-token":
            return own_first(p, drafted, [shown[x] >= (1 - value["alpha"]) * max(shown) for x in drafted])
    return p
