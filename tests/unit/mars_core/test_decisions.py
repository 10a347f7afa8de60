"""The decisions of every rule, in every mode, on chains and trees, with protected tokens or without:
their distribution is the published one, and TV, KL, overshoot and mass are those of it; at their
limits rules are strict."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch
from scipy.special import rel_entr
from torch.overrides import TorchFunctionMode

from mars_core.rules import RULES, Reach, Siblings, protecting
from mars_core.sampling import noise, target_distribution
from mars_core.types import DraftMode, Processors, Sampling, ShiftKind
from mars_core.verification import chain_draft
from mars_core.verification.coupled import CELLS
from tests.unit.mars_core.deciding import (
    BY_TOKEN,
    MASK,
    Setting,
    emitted,
    measured,
    protected,
    published,
    ties,
    tokens_after,
    trials,
)
from tests.unit.mars_core.published import Distribution, coupled
from tests.unit.mars_core.test_verification import (
    SAMPLINGS,
    TREES,
    Decoded,
    V,
    case,
    chance,
    children_of,
    columns,
    decoded,
    drawn_case,
    every_draw,
    keys,
    takes,
    values_of,
)

NEAR = 1e-5  # of numbers that are counted
CASES = [
    (rule, mode, tree)
    for rule, mode, tree in product(BY_TOKEN, DraftMode, TREES)
    if mode in RULES[rule].modes
    and takes(rule, tree)
    and (mode is DraftMode.GREEDY or tree == "chain of 3" or RULES[rule].regret_cost)
    # a ledger is of all drafted tokens; of other rules longer chains have the same decisions
    and (tree == "chain of 1") is (RULES[rule].regret_cost is not None)
    and (mode is not DraftMode.SAMPLED or RULES[rule].reach is not Reach.BLOCK)
]


def settings(rule: str, mode: DraftMode, tree: str) -> list[Setting]:
    """At every temperature, and at the first two once more with protected tokens."""
    some = SAMPLINGS if mode is DraftMode.GREEDY else SAMPLINGS[1:]
    result = []
    for seed, sampling in enumerate(some):
        logits, draft = case(tree, seed)
        if mode is DraftMode.COUPLED:  # the drafter excludes other tokens than p
            assert draft.distribution is not None
            q = target_distribution(draft.distribution.log(), replace(sampling, top_k=4))
            draft = replace(draft, distribution=q)
        result.append(Setting(RULES[rule], mode, sampling, logits, draft))
    guarded = protecting(RULES[rule], MASK)
    if guarded is not RULES[rule]:
        result += [each._replace(rule=guarded) for each in result[:2]]
    return result


@pytest.mark.parametrize(("name", "mode", "tree"), CASES, ids=str)
def test_decisions_have_the_published_distribution_and_tv_is_its_distance_from_p(
    name: str, mode: DraftMode, tree: str
) -> None:
    """And a rule that takes the target's token first replaces it no oftener than two variables of
    distributions P and p must differ: TV(P, p)."""
    for setting in settings(name, mode, tree):
        draft, rule = setting.draft, setting.rule
        leaves = mode is DraftMode.GREEDY  # which know q of all nodes
        nodes = {
            at: found for at, found in enumerate(children_of(draft.parents)) if found or leaves
        }
        counted, changed = measured(
            setting,
            [each for node, found in nodes.items() for each in trials(setting, node, found)],
        )
        if mode is DraftMode.SAMPLED:
            near = [each for node in nodes for each in ties(setting, node)]
            replaced = emitted([(each, 1 - 2**-53) for each in near], setting)
            assert replaced == [each.drawn for each in near]
        u = chance(draft, 0)
        assert u.noise is not None
        row = setting.decided(draft.ids[None], u.uniform[None], u.noise[None].double(), True)[0]
        decision = decoded(row)
        for node, found in nodes.items():
            p, expected = setting.p[node], published(setting, node, found)
            near = NEAR if expected is None else 1e-8
            expected = counted[node] if expected is None else expected
            assert counted[node] == pytest.approx(expected, abs=NEAR)
            check_shift(setting, decision, node, expected, near)
            distance = total_variation(counted[node], p)
            if rule.lossless and mode is not DraftMode.SAMPLED:
                assert changed[node] == 0
            if mode is DraftMode.GREEDY and (
                rule.siblings is not Siblings.IN_TURN or name == "threshold"
            ):
                assert changed[node] == pytest.approx(distance, abs=NEAR)


def total_variation(one: Distribution, other: Distribution) -> float:
    return float(abs(one - other).sum() / 2)


def overshoot(distribution: Distribution, p: Distribution) -> float:
    """Return the largest P/p of what P may emit."""
    emitted = distribution > 1e-9
    ratios = zip(distribution[emitted], p[emitted], strict=True)
    return max(a / b if b else math.inf for a, b in ratios)


def check_shift(
    setting: Setting, decision: Decoded, node: int, expected: Distribution, near: float
) -> None:
    p, said, rule, mode = setting.p[node], decision.nodes[node], setting.rule, setting.mode
    exact = total_variation(expected, p), rel_entr(expected, p).sum()
    kind = ShiftKind.EXACT
    if mode is DraftMode.COUPLED:
        kind = rule.shift_kind(setting.draft.is_chain)
    elif mode is DraftMode.SAMPLED and rule.reach is Reach.DRAFTED:
        kind = ShiftKind.MISSING
    if kind is ShiftKind.EXACT:
        near = max(near, 1e-5) if mode is DraftMode.COUPLED else near
        assert (said.tv, said.kl) == pytest.approx(exact, abs=near)
        assert said.overshoot == pytest.approx(overshoot(expected, p), rel=near * 100)
        assert said.mass == pytest.approx(expected[int(said.emit)], abs=near)
        for child in decision.children[node]:
            token = decision.verdict.nodes.drafted(child)
            assert token.mass == pytest.approx(expected[token.measured["id"]], abs=near)
        return
    assert math.isnan(said.overshoot) and math.isnan(said.mass)
    if kind is ShiftKind.MISSING:
        assert math.isnan(said.tv) and math.isnan(said.kl)
        return
    z, q = setting.at(node)
    relaxed = coupled(rule.name, z, p, q, protected(setting))[1]
    assert exact[0] - 1e-6 <= relaxed <= said.tv + 1e-6 <= relaxed + 1 / CELLS
    assert exact[1] <= said.kl + 1e-6 and (said.kl < math.inf or exact[1] == math.inf)


@every_draw
@pytest.mark.parametrize("rule", [name for name in BY_TOKEN if RULES[name].emits_top1])
def test_on_coupled_trees_the_bound_holds(rule: str, sampling: Sampling) -> None:
    """Nothing beside top-1 and what the rule keeps is emitted oftener than by the target."""
    count, (logits, draft) = 2000, case("siblings", 2)
    q = target_distribution(logits[:1] + 0.5 * logits[1:2], replace(sampling, top_k=4))[0]
    for each in (RULES[rule], protecting(RULES[rule], MASK)):
        setting = Setting(each, DraftMode.COUPLED, sampling, logits, draft)
        drawn = noise(keys(3, 1, 2 * count), V).view(count, 2, V)
        uniform = torch.rand(count, 2, generator=torch.Generator().manual_seed(3)).double()
        ids = torch.cat([draft.ids[:1].expand(count, 1), (q / drawn[:, 0]).topk(3).indices], 1)
        share = tokens_after(setting, ids, uniform, drawn)[:, 0].bincount(minlength=V) / count
        row = setting.decided(ids[:1], uniform[:1], drawn[:1], True)[0]
        bound = decoded(row).nodes[0].tv + 1.5 * (V / count) ** 0.5
        assert total_variation(share.numpy(), setting.p[0]) <= bound


LIMITS: list[tuple[str, dict[str, float], bool]] = [  # of strict, and of greedy decoding
    ("block", {}, False),
    ("lenience", {"lenience": 1}, False),
    ("ears", {"tolerance": 0}, False),
    ("entropy", {"alpha": 0, "limit": 1}, False),
    ("threshold", {"single": 1, "accumulated": 1}, False),
    ("ensemble", {"weight": 1}, False),
    ("mars", {"theta": 1}, False),
    ("mars-gap", {"gap": 0}, False),
    ("random", {"probability": 0}, False),
    ("cactus", {"delta": 0}, False),
    ("fuzzy", {"divergence": 0}, False),
    ("easd", {"entropy": 20}, False),
    ("fly", {"window": 6, "entropy": 0}, False),
    ("mars-algorithm1", {"theta": 1}, True),
    ("topk-delta", {"n": 1}, True),
    ("topk-delta", {"delta": 0}, True),
    ("topk-ratio", {"n": 1}, True),
    ("topk-ratio", {"ratio": 1}, True),
]


@pytest.mark.parametrize(("rule", "values", "cold"), LIMITS, ids=str)
def test_limits_of_the_rules_are_strict_decision_by_decision(
    rule: str, values: dict[str, float], cold: bool
) -> None:
    """Those of rules that emit top-1 are strict at temperature 0."""
    for tree, sampling, seed in product(TREES, SAMPLINGS, range(2)):
        if takes(rule, tree):
            logits, draft, u = drawn_case(tree, seed, shift=8.0)  # all positive, as θ = 1 requires
            for z, rounding in ((logits, 1e-12), (logits.float(), 1e-7)):
                rows = columns(z, draft, rule, sampling, u, values)
                strict = columns(z, draft, "strict", Sampling(0.0) if cold else sampling, u)
                mine, others = decoded(rows).nodes, decoded(strict).nodes
                assert [(each.keep, each.emit) for each in mine] == [
                    (each.keep, each.emit) for each in others
                ]
                assert cold or max(max(each.tv, each.kl) for each in mine) < rounding


class Divided(TorchFunctionMode):
    """Rounds the sum of a single row of the vocabulary otherwise than that of one row of several:
    torch does so where threads divide it, by rules of its own that depend on processor and size."""

    def __torch_function__(
        self, called: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = called(*args, **(kwargs or {}))
        if called.__name__ in ("sum", "mean", "logsumexp") and args[0].shape == (1, V):
            return result * 1.5 if result.is_floating_point() else result
        return result


@pytest.mark.parametrize("name", RULES)
def test_drafts_that_are_judged_together_have_the_rows_of_each_alone(name: str) -> None:
    """Bit for bit, also where the sum of a single row is rounded otherwise; with filters a parameter
    is an expression. Of the chain of 3 with seed 4 a single token can be relaxed."""
    rule, values = RULES[name], dict[str, Any](values_of(name))
    values |= {
        each.name: f"{values[each.name]} * (0.5 + entropy/2)"
        for each in rule.parameters[:1]
        if not each.is_integer
    }
    filtered = Sampling(1.3, top_k=5, top_p=0.9, processors=Processors(typical_p=0.7))
    for mode, sampling in product(rule.modes, (*SAMPLINGS[:2], filtered)):
        for tree in ("", "chain of 1", "chain of 3", "branching"):
            if tree == "branching" and (mode is DraftMode.SAMPLED or not takes(name, tree)):
                continue
            cases = [case(tree or "chain of 1", seed) for seed in (4, 6)]
            logits, draft = torch.stack([each for each, _ in cases]), cases[0][1]
            if not tree:
                logits, draft = logits[:, :1], chain_draft(draft.ids[:1], draft.q[:0])
            setting = Setting(rule, mode, sampling, logits, draft)
            if sampling is filtered:
                setting = setting._replace(values=values)
            source, shape = torch.Generator().manual_seed(2), (2, draft.depth + 1)
            uniform = torch.rand(shape, generator=source, dtype=torch.float64)
            drawn = torch.empty(*shape, V).exponential_(generator=source)
            ids = torch.randint(V, (2, draft.size + 1), generator=source)
            rows = setting.decided(ids, uniform, drawn, True)
            for at in range(2):
                alone = (each[at : at + 1] for each in (ids, uniform, drawn))
                with Divided():
                    row = setting._replace(logits=logits[at]).decided(*alone, True)[0]
                assert row.numpy().tobytes() == rows[at].numpy().tobytes(), (mode, tree)
