"""The decisions of every rule, in every mode, on chains and trees, with protected tokens or without:
their distribution is the published one, and TV, KL, overshoot and mass are those of it."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise, product
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from mars_core.rules import RULES, Reach, Siblings, protecting
from mars_core.rules.base import Rule
from mars_core.sampling import Chance, noise, target_distribution
from mars_core.types import DraftMode, Sampling, ShiftKind
from mars_core.verification import Draft, judge
from mars_core.verification.columns import HEAD, layout
from mars_core.verification.coupled import CELLS
from tests.unit.mars_core.published import Distribution, after_node, coupled, joint, sampled
from tests.unit.mars_core.test_verification import (
    SAMPLINGS,
    TREES,
    Decoded,
    V,
    case,
    chance,
    children_of,
    decoded,
    divergence,
    every_draw,
    keys,
    largest_ratio,
    takes,
    total_variation,
    values_of,
)

PROTECTED = (1, 4)
MASK = torch.zeros(V, dtype=torch.bool).index_fill_(0, torch.tensor(PROTECTED), True)
GRID = 12  # pieces into which the accepting uniform is cut first
NARROW = 1e-9  # where the decision changes, is known to this
# fly looks ahead: test_verification_chains.py; asd has a ledger: test_asd.py
BY_TOKEN = [
    name
    for name, rule in RULES.items()
    if rule.modes and name != "fly" and rule.regret_cost is None
]
CASES = [
    (rule, mode, tree)
    for rule, mode, tree in product(BY_TOKEN, DraftMode, TREES)
    if mode in RULES[rule].modes
    and takes(rule, tree)
    and (mode is DraftMode.GREEDY or tree == "chain of 3")
    and (mode is not DraftMode.SAMPLED or RULES[rule].reach is not Reach.BLOCK)
]


class Setting(NamedTuple):
    rule: Rule
    mode: DraftMode
    sampling: Sampling
    logits: Tensor  # [N + 1, V]
    draft: Draft

    @property
    def p(self) -> list[Distribution]:
        return target_distribution(self.logits, self.sampling).tolist()

    def judged(self, ids: Tensor, uniform: Tensor, drawn: Tensor, telemetry: bool) -> Tensor:
        """The rows of A drafts of this shape, [A, M]; ids [A, N + 1]; uniform, noise [A, D, …]."""
        count, draft = len(ids), self.draft
        q = draft.q.expand(count, -1)
        distribution = draft.distribution
        if distribution is not None:
            distribution = distribution.expand(count, -1, -1)
            q = distribution.gather(-1, ids[:, 1:, None])[..., 0]
        many = Draft(
            ids,
            draft.parents.expand(count, -1),
            draft.depths.expand(count, -1),
            q,
            draft.depth,
            draft.is_chain,
            distribution,
        )
        u = Chance(uniform, drawn if self.sampling.temperature else None, None)
        values = values_of(self.rule.name)
        return judge(
            self.logits.expand(count, -1, -1),
            many,
            self.rule,
            values,
            self.sampling,
            self.mode,
            u,
            telemetry,
            score=(ids % 2)[..., None],
        )


class Trial(NamedTuple):
    """The children of a node, noise with which these tokens are its first, in this order, and how
    probable both are."""

    node: int
    drafted: tuple[int, ...]
    first: tuple[int, ...]
    weight: float


class Cut(NamedTuple):
    """An interval of the accepting uniform, and the tokens at its ends."""

    trial: Trial
    low: float
    high: float
    at_low: int
    at_high: int


def drawn_for(
    p: Distribution, drafted: tuple[int, ...], y: int
) -> list[tuple[tuple[int, ...], float]]:
    """The target's token, and if it is drafted also the first one that is not: a rule may replace
    it by that."""
    rest = [0.0 if b in drafted else each for b, each in enumerate(p)]
    if y not in drafted or not sum(rest):
        return [((y,), 1.0)]
    return [((y, b), each / sum(rest)) for b, each in enumerate(rest) if each]


def trials(setting: Setting, node: int, children: list[int]) -> list[Trial]:
    p, ids = setting.p[node], setting.draft.ids
    if setting.mode is DraftMode.GREEDY:
        drafted = tuple(ids[children].tolist())
        known = [(drafted, (y,), each) for y, each in enumerate(p)]
    else:
        assert setting.draft.distribution is not None
        q = setting.draft.distribution[node].tolist()
        if setting.mode is DraftMode.COUPLED:
            both = joint(p, q)
            known = [((x,), (y,), both[x][y]) for x, y in product(range(V), repeat=2)]
        else:
            z, guarded = setting.logits[node].tolist(), protected(setting)
            rest = sampled(setting.rule.name, z, p, q, guarded)[1]
            return [
                Trial(node, (x,), (*excluded(rest[x]), y), q[x] * rest[x][y])
                for x, y in product(range(V), repeat=2)
                if rest[x][y]
            ]
    return [
        Trial(node, drafted, first, weight * share)
        for drafted, (y,), weight in known
        if weight > 1e-13
        for first, share in drawn_for(p, drafted, y)
    ]


def excluded(distribution: Distribution) -> list[int]:
    """What is never drawn, whatever the noise."""
    return [token for token, each in enumerate(distribution) if not each]


def protected(setting: Setting) -> tuple[int, ...]:
    return () if setting.rule.protected is None else PROTECTED


def tokens_after(setting: Setting, ids: Tensor, uniform: Tensor, drawn: Tensor) -> Tensor:
    """The token after each node of each draft, [A, N + 1]."""
    rows = setting.judged(ids, uniform, drawn, telemetry=False)
    of_drafts, of_nodes, *_ = layout(*map(int, rows[0, :HEAD])).starts
    keep = rows[:, of_drafts["keep"] :][:, : setting.draft.size]
    after = rows[:, of_nodes["emit"] :][:, : setting.draft.size + 1].long()
    for node, children in enumerate(children_of(setting.draft.parents)):
        for child in reversed(children):
            kept = keep[:, child - 1] > 0
            after[:, node] = torch.where(kept, ids[:, child], after[:, node])
    return after


def emitted(points: list[tuple[Trial, float]], setting: Setting) -> list[int]:
    """The token after the node of each trial, with this accepting uniform."""
    draft, children = setting.draft, children_of(setting.draft.parents)
    ids, depth = draft.ids.repeat(len(points), 1), draft.depths.tolist()
    uniform = torch.full((len(points), draft.depth + 1), 0.5, dtype=torch.float64)
    drawn = torch.ones(*uniform.shape, V, dtype=torch.float64)
    for at, (trial, u) in enumerate(points):
        ids[at, children[trial.node]] = torch.tensor(trial.drafted)
        uniform[at, depth[trial.node]] = u
        for rank, token in enumerate(trial.first):
            drawn[at, depth[trial.node], token] = 1e-60 * 1e9**rank
    after = tokens_after(setting, ids, uniform, drawn).tolist()
    return [after[at][trial.node] for at, (trial, _) in enumerate(points)]


def measured(
    setting: Setting, all_trials: list[Trial]
) -> tuple[dict[int, Distribution], dict[int, float]]:
    """After each node what the code does, integrated over draft, noise and accepting uniform; and
    how probably it is not the target's token."""
    nodes = {trial.node for trial in all_trials}
    distributions = {node: [0.0] * V for node in nodes}
    changed = dict.fromkeys(nodes, 0.0)
    ends = [at / GRID for at in range(GRID)] + [1 - 2**-53]
    points = [*product(all_trials, ends)]
    tokens = emitted(points, setting)
    cuts = [
        Cut(trial, low, high, tokens[at], tokens[at + 1])
        for at, ((trial, low), (_, high)) in enumerate(pairwise(points))
        if low < high
    ]
    while cuts:
        unsure = []
        for cut in cuts:
            if cut.at_low == cut.at_high or cut.high - cut.low < NARROW:
                weight = cut.trial.weight * (cut.high - cut.low)
                distributions[cut.trial.node][cut.at_low] += weight
                changed[cut.trial.node] += weight * (cut.at_low != cut.trial.first[0])
            else:
                unsure.append(cut)
        middles = [(cut.trial, (cut.low + cut.high) / 2) for cut in unsure]
        tokens = emitted(middles, setting) if middles else []
        cuts = [
            half
            for cut, (_, u), token in zip(unsure, middles, tokens, strict=True)
            for half in (cut._replace(high=u, at_high=token), cut._replace(low=u, at_low=token))
        ]
    return distributions, changed


def published(setting: Setting, node: int, children: list[int]) -> Distribution | None:
    """None of greedy drafts with protected tokens: their shift is still that of the decisions."""
    name, draft, p = setting.rule.name, setting.draft, setting.p[node]
    z, guarded = setting.logits[node].tolist(), protected(setting)
    q = None if draft.distribution is None else draft.distribution[node].tolist()
    if setting.mode is DraftMode.GREEDY:
        drafted: dict[int, float] = {}
        for child in children:  # a sibling that repeats another is not there
            drafted.setdefault(int(draft.ids[child]), float(draft.q[child - 1]))
        if guarded:
            return p if {*drafted} <= {*guarded} and not setting.rule.emits_top1 else None
        cold = setting.sampling.temperature == 0
        return after_node(name, z, p, [*drafted], [*drafted.values()], q, cold)
    assert q is not None
    if setting.mode is DraftMode.SAMPLED:
        return sampled(name, z, p, q, guarded)[2]
    return coupled(name, z, p, q, guarded)[0]


def settings(rule: str, mode: DraftMode, tree: str) -> list[Setting]:
    """At every temperature, and once more with protected tokens."""
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
        result += [each._replace(rule=guarded) for each in result]
    return result


@pytest.mark.parametrize(("name", "mode", "tree"), CASES, ids=str)
def test_decisions_have_the_published_distribution_and_tv_is_its_distance_from_p(
    name: str, mode: DraftMode, tree: str
) -> None:
    """And a rule that takes the target's token first replaces it no oftener than two variables of
    distributions P and p must differ: TV(P, p)."""
    for setting in settings(name, mode, tree):
        draft, rule = setting.draft, setting.rule
        nodes = {at: found for at, found in enumerate(children_of(draft.parents)) if found}
        counted, changed = measured(
            setting,
            [each for node, found in nodes.items() for each in trials(setting, node, found)],
        )
        u = chance(draft, 0)
        assert u.noise is not None
        row = setting.judged(draft.ids[None], u.uniform[None], u.noise[None].double(), True)[0]
        decision = decoded(row)
        for node, found in nodes.items():
            p, expected = setting.p[node], published(setting, node, found)
            assert counted[node] == pytest.approx(expected or counted[node], abs=1e-8)
            check_shift(setting, decision, node, expected or counted[node])
            distance = total_variation(counted[node], p)
            if rule.lossless and mode is not DraftMode.SAMPLED:
                assert changed[node] == 0
            if mode is DraftMode.GREEDY and (
                rule.siblings is not Siblings.IN_TURN or name == "threshold"
            ):
                assert changed[node] == pytest.approx(distance, abs=1e-8)


def check_shift(setting: Setting, decision: Decoded, node: int, expected: Distribution) -> None:
    p, said, rule, mode = setting.p[node], decision.nodes[node], setting.rule, setting.mode
    exact = total_variation(expected, p), divergence(expected, p)
    kind = ShiftKind.EXACT
    if mode is DraftMode.COUPLED:
        kind = rule.shift_kind(setting.draft.is_chain)
    elif mode is DraftMode.SAMPLED and rule.reach is Reach.DRAFTED:
        kind = ShiftKind.MISSING
    if kind is ShiftKind.EXACT:
        near = 1e-5 if mode is DraftMode.COUPLED else 1e-8
        assert (said.tv, said.kl) == pytest.approx(exact, abs=near)
        assert said.overshoot == pytest.approx(largest_ratio(expected, p), rel=near * 100)
        assert said.mass == pytest.approx(expected[int(said.emit)], abs=near)
        for child in decision.children[node]:
            token = decision.verdict.nodes.drafted(child)
            assert token.mass == pytest.approx(expected[token.id], abs=near)
        return
    assert math.isnan(said.overshoot) and math.isnan(said.mass)
    if kind is ShiftKind.MISSING:
        assert math.isnan(said.tv) and math.isnan(said.kl)
        return
    assert setting.draft.distribution is not None
    q = setting.draft.distribution[node].tolist()
    relaxed = coupled(rule.name, setting.logits[node].tolist(), p, q, protected(setting))[1]
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
        row = setting.judged(ids[:1], uniform[:1], drawn[:1], True)[0]
        bound = decoded(row).nodes[0].tv + 1.5 * (V / count) ** 0.5
        assert total_variation(share.tolist(), setting.p[0]) <= bound
