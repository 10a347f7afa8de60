"""Every rule's decisions, integrated over drafts, noise and the accepting uniform."""

from __future__ import annotations

from itertools import pairwise, product
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from mars_core.rules import RULES
from mars_core.rules.base import Rule, Values
from mars_core.sampling import Chance, target_distribution
from mars_core.types import DraftMode, Sampling
from mars_core.verification import Draft, Known, Terms, decide
from mars_core.verification.columns import HEAD, columns_of
from tests.unit.mars_core.published import Distribution, after_node, coupled, joint, only, sampled
from tests.unit.mars_core.test_verification import (
    V,
    children_of,
    values_of,
)

PROTECTED = (1, 4)
MASK = torch.zeros(V, dtype=torch.bool).index_fill_(0, torch.tensor(PROTECTED), True)
GRID = 12  # pieces into which the accepting uniform is cut first
NARROW = 1e-6  # where the decision changes, is known to this
# fly looks ahead: test_verification_chains.py
BY_TOKEN = [name for name, rule in RULES.items() if rule.modes and name != "fly"]


class Setting(NamedTuple):
    rule: Rule
    mode: DraftMode
    sampling: Sampling
    logits: Tensor  # [N + 1, V]
    draft: Draft
    values: Values | None = None  # None: the usual ones

    @property
    def p(self) -> Distribution:
        """[N + 1, V]."""
        return target_distribution(self.logits, self.sampling).double().numpy()

    def at(self, node: int) -> tuple[Distribution, Distribution]:
        """Return z and q after a node."""
        assert self.draft.distribution is not None
        z, q = self.logits[node], self.draft.distribution[node]
        return z.double().numpy(), q.double().numpy()

    def decided(self, ids: Tensor, uniform: Tensor, drawn: Tensor, telemetry: bool) -> Tensor:
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
        values = values_of(self.rule.name) if self.values is None else self.values
        terms = Terms(self.rule, values, self.sampling, self.mode, telemetry)
        score = (ids % 2)[..., None]
        logits = self.logits.expand(count, -1, -1)
        return decide(terms, many, Known(logits, u, signals={"score": score}))


class Trial(NamedTuple):
    """The children of a node, the noise of some tokens (of others it is 1), which of them is drawn,
    and how probable both are."""

    node: int
    drafted: tuple[int, ...]
    noise: dict[int, float]
    drawn: int
    weight: float


class Cut(NamedTuple):
    """An interval of the accepting uniform, and the tokens at its ends."""

    trial: Trial
    low: float
    high: float
    at_low: int
    at_high: int


def ranked(*order: int) -> dict[int, float]:
    """Noise with which these tokens come first, in this order, where they are possible."""
    return {token: 1e-60 * 1e9**rank for rank, token in enumerate(order)}


def drawn_for(
    p: Distribution, drafted: tuple[int, ...], y: int
) -> list[tuple[tuple[int, ...], float]]:
    """The target's token, and if it is drafted also the first one that is not: a rule may replace
    it by that."""
    rest = p * (1 - only(*drafted))
    if y not in drafted or not rest.sum():
        return [((y,), 1.0)]
    return [((y, b), rest[b] / rest.sum()) for b in np.flatnonzero(rest).tolist()]


def trials(setting: Setting, node: int, children: list[int]) -> list[Trial]:
    p, ids = setting.p[node], setting.draft.ids
    if setting.mode is DraftMode.GREEDY:
        drafted = tuple(ids[children].tolist())
        known = [(drafted, y, each) for y, each in enumerate(p)]
    else:
        z, q = setting.at(node)
        if setting.mode is DraftMode.COUPLED:
            both = joint(p, q)
            known = [((x,), y, both[x, y]) for x, y in product(range(V), repeat=2)]
        else:
            rest = sampled(setting.rule.name, z, p, q, protected(setting))[1]
            return [
                Trial(node, (x,), ranked(*excluded(rest[x]), y), y, q[x] * rest[x][y])
                for x, y in product(range(V), repeat=2)
                if rest[x][y]
            ]
    return [
        Trial(node, drafted, ranked(*first), y, weight * share)
        for drafted, y, weight in known
        if weight > 1e-13
        for first, share in drawn_for(p, drafted, y)
    ]


def excluded(distribution: Distribution) -> list[int]:
    """What is never drawn, whatever the noise."""
    return np.flatnonzero(distribution == 0).tolist()


def ties(setting: Setting, node: int) -> list[Trial]:
    """After every rejected token a draw that two tokens of R nearly share, so that the ratio of their
    probabilities decides."""
    z, q = setting.at(node)
    accept, rest, _ = sampled(setting.rule.name, z, setting.p[node], q, protected(setting))
    result = []
    for x in (each for each in range(V) if accept[each] < 1 - 1e-9):
        known = np.flatnonzero(rest[x]).tolist()
        for pair in (each for two in pairwise(known) for each in (two, two[::-1])):
            shares = {token: 1e-30 * rest[x][token] for token in pair}
            nearer = shares | {pair[0]: shares[pair[0]] * (1 - 1e-6)}
            result.append(Trial(node, (x,), nearer, pair[0], 0.0))
    return result


def protected(setting: Setting) -> tuple[int, ...]:
    return () if setting.rule.protected is None else PROTECTED


def tokens_after(setting: Setting, ids: Tensor, uniform: Tensor, drawn: Tensor) -> Tensor:
    """The token after each node of each draft, [A, N + 1]."""
    rows = setting.decided(ids, uniform, drawn, telemetry=False)
    columns, size = columns_of(*map(int, rows[0, :HEAD])), setting.draft.size
    keep, after = (rows[:, columns[name][1] :] for name in ("keep", "emit"))
    keep, after = keep[:, :size], after[:, : size + 1].long()
    for node, children in enumerate(children_of(setting.draft.parents)):
        for child in reversed(children):
            kept = keep[:, child - 1] > 0
            after[:, node] = torch.where(kept, ids[:, child], after[:, node])
    return after


def emitted(points: list[tuple[Trial, float]], setting: Setting) -> list[int]:
    """The token after the node of each trial, with this accepting uniform."""
    if not points:
        return []
    draft, children = setting.draft, children_of(setting.draft.parents)
    places, depth = range(len(points)), draft.depths
    ids = draft.ids.repeat(len(points), 1)
    uniform = torch.full((len(points), draft.depth + 1), 0.5, dtype=torch.float64)
    drawn = torch.ones(*uniform.shape, V, dtype=torch.float64)
    uniform[places, depth[[trial.node for trial, _ in points]]] = torch.tensor(
        [u for _, u in points], dtype=torch.float64
    )
    drafted, noise = [], []
    for at, (trial, _) in enumerate(points):
        drafted += [(at, *each) for each in zip(children[trial.node], trial.drafted, strict=True)]
        noise += [(at, trial.node, *each) for each in trial.noise.items()]
    if drafted:
        at, child, token = torch.tensor(drafted).T
        ids[at, child] = token
    if noise:
        at, node, token, value = torch.tensor(noise, dtype=torch.float64).T
        drawn[at.long(), depth[node.long()], token.long()] = value
    after = tokens_after(setting, ids, uniform, drawn).tolist()
    return [after[at][trial.node] for at, (trial, _) in enumerate(points)]


def measured(
    setting: Setting, all_trials: list[Trial]
) -> tuple[dict[int, Distribution], dict[int, float]]:
    """After each node what the code does, integrated over draft, noise and accepting uniform; and
    how probably it is not the target's token."""
    nodes = {trial.node for trial in all_trials}
    distributions = {node: np.zeros(V) for node in nodes}
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
                changed[cut.trial.node] += weight * (cut.at_low != cut.trial.drawn)
            else:
                unsure.append(cut)
        middles = [(cut.trial, (cut.low + cut.high) / 2) for cut in unsure]
        tokens = emitted(middles, setting)
        cuts = [
            half
            for cut, (_, u), token in zip(unsure, middles, tokens, strict=True)
            for half in (cut._replace(high=u, at_high=token), cut._replace(low=u, at_low=token))
        ]
    return distributions, changed


def published(setting: Setting, node: int, children: list[int]) -> Distribution | None:
    """None of greedy drafts with protected tokens: their shift is still that of the decisions."""
    name, draft, p = setting.rule.name, setting.draft, setting.p[node]
    if not children:
        return only(int(p.argmax())) if setting.rule.emits_top1 else p
    guarded = protected(setting)
    z = setting.logits[node].double().numpy()
    q = None if draft.distribution is None else setting.at(node)[1]
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
