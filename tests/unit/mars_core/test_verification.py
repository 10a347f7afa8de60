"""What a verdict tells: the rows that the trace is made of. Here too: the drafts that all tests of
verification decide."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from mars_core import verification
from mars_core.rules import RULES, Siblings
from mars_core.rules.base import Rule
from mars_core.sampling import Chance, Use, target_distribution, words
from mars_core.types import DraftMode, Sampling
from mars_core.verification import Draft, Known, StepVerdict, Terms, chain_draft, walk
from mars_core.verification.columns import RowToken

V = 6
SAMPLINGS = (Sampling(0.0), Sampling(1.0), Sampling(0.7, top_k=3), Sampling(1.3, top_p=0.8))
every_draw = pytest.mark.parametrize("sampling", SAMPLINGS[1:], ids=str)  # above temperature 0
CHAINS = {"chain of 1": (0,), "chain of 3": (0, 1, 2)}
TREES = {
    **CHAINS,
    "siblings": (0, 0, 0),
    "branching": (0, 0, 1, 1, 2, 4),
    "duplicates": (0, 0, 0, 1, 1),
}
VALUES: Mapping[
    str, Mapping[str, float]
] = {  # parameters with which each rule decides now one way, now the other
    "mars": {"theta": 0.6},
    "mars-algorithm1": {"theta": 0.6},
    "mars-reference": {"theta": 0.85},
    "mars-gap": {"gap": 0.9},
    "typical": {"epsilon": 0.25, "delta": 0.6},
    "topk-delta": {"n": 3, "delta": 0.3},
    "topk-ratio": {"n": 3, "ratio": 0.4},
    "threshold": {"single": 0.45, "accumulated": 0.7},
    "ears": {"tolerance": 0.5},
    "entropy": {"alpha": 0.4, "limit": 0.6},
    "cascade-token": {"alpha": 0.5},
    "cactus": {"delta": 0.1},
    "fuzzy": {"divergence": 0.1},
    "cascade-opt": {"alpha": 0.2},
    "easd": {"n": 3, "overlap": 0.6, "entropy": 0.9},
    "contrastive": {"beta": 0.5, "alpha": 0.1},
    "asd": {"budget": 9.0, "gate": 0.8},
}


def values_of(rule: str) -> dict[str, float]:
    return RULES[rule].values(VALUES.get(rule, {}))


def takes(
    rule: str, tree: str, sampling: Sampling = SAMPLINGS[0], mode: DraftMode = DraftMode.GREEDY
) -> bool:
    """Whether the rule judges such a draft. At temperature 0 all modes are greedy."""
    known = mode in RULES[rule].modes or sampling.temperature == 0
    return known and (tree in CHAINS or RULES[rule].siblings is not Siblings.REFUSED)


def children_of(parents: Tensor) -> list[list[int]]:
    """The numbers of the children of each node."""
    children: list[list[int]] = [[] for _ in range(len(parents) + 1)]
    for child, parent in enumerate(parents.tolist(), start=1):
        children[parent].append(child)
    return children


def case(tree: str, seed: int, shift: float = 1.0) -> tuple[Tensor, Draft]:
    """Logits [N + 1, V] float64 and the draft of a drafter that knows them but for noise: siblings
    are its likeliest tokens."""
    parents = TREES[tree]
    source = torch.Generator().manual_seed(seed)
    drawn = torch.randn(len(parents) + 1, V, generator=source, dtype=torch.float64)
    logits = drawn * 1.5 + shift
    noisy = logits + torch.randn(logits.shape, generator=source, dtype=torch.float64)
    ids, depths = [0], [0]
    for node, parent in enumerate(parents):
        ids.append(int(noisy[parent].argsort(descending=True)[parents[:node].count(parent)]))
        depths.append(depths[parent] + 1)
    if tree == "duplicates":
        ids[3], ids[5] = ids[1], ids[4]
    distribution = noisy[list(parents)].softmax(-1)
    q = distribution.gather(-1, torch.tensor(ids[1:])[:, None])[:, 0]
    if tree in CHAINS:
        return logits, chain_draft(torch.tensor(ids), q, distribution)
    return logits, Draft(
        torch.tensor(ids), torch.tensor(parents), torch.tensor(depths), q, max(depths), False
    )


def chance(draft: Draft, seed: int) -> Chance:
    """Random numbers for the draft."""
    source, count = torch.Generator().manual_seed(seed), draft.depth + 1
    uniform = torch.rand(count, generator=source, dtype=torch.float64)
    return Chance(uniform, torch.empty(count, V).exponential_(generator=source), None)


def drawn_case(tree: str, seed: int, shift: float = 1.0) -> tuple[Tensor, Draft, Chance]:
    """A case with its random numbers."""
    logits, draft = case(tree, seed, shift)
    return logits, draft, chance(draft, seed)


def keys(seed: int, position: int, count: int) -> Tensor:
    """Of the noise with which the target draws at ``count`` positions."""
    return torch.tensor(words(seed, position, count)).view(-1, len(Use))[:, Use.DRAW]


def picked(*orders: Sequence[int], uniform: Sequence[float] = (), size: int = V) -> Chance:
    """Random numbers with which the first of these ids that a distribution has is drawn at each
    position."""
    noise = torch.ones(len(orders), size, dtype=torch.float64)
    for row, order in zip(noise, orders, strict=True):
        for rank, id_ in enumerate(order):
            row[id_] = 1e-18 * 1e9**rank
    return Chance(torch.tensor(uniform or [0.5] * len(orders), dtype=torch.float64), noise, None)


def columns(
    logits: Tensor,
    draft: Draft,
    rule: str | Rule,
    sampling: Sampling,
    u: Chance,
    values: Mapping[str, float] | None = None,
    mode: DraftMode = DraftMode.GREEDY,
    telemetry: bool = True,
    run: Tensor | None = None,
) -> Tensor:
    rule = RULES[rule] if isinstance(rule, str) else rule
    parameters = values_of(rule.name) if values is None else rule.values(values)
    u = u if sampling.temperature else replace(u, noise=None)
    terms = Terms(rule, parameters, sampling, mode, telemetry)
    known = Known(logits, u, run=run, signals={"score": scores(draft)})
    return verification.decide(terms, draft, known)


def scores(draft: Draft) -> Tensor:
    """A classifier that calls even tokens harmless."""
    return (draft.ids % 2)[:, None]


def decide(*options: Any, **named: Any) -> Decoded:
    """As ``columns``."""
    return decoded(columns(*options, **named))


class Decoded(NamedTuple):
    """A verdict, and each node: what its token's columns say, and those of the position after
    it."""

    verdict: StepVerdict
    path: tuple[int, ...]
    nodes: list[Any]

    @property
    def children(self) -> list[list[int]]:
        return self.verdict.nodes.children


def fields_of(token: RowToken) -> dict[str, Any]:
    return token.measured | token._asdict()


def decoded(rows: Tensor) -> Decoded:
    verdict = walk(rows.tolist())
    token = ("keep", "strict", "parent", "id", "rank", "p", "q", "logprob", "forgiveness", "emit")
    columns_of = zip(*(verdict.nodes.column(name) for name in token), strict=True)
    nodes = [
        SimpleNamespace(
            **fields_of(verdict.nodes.emitted(number)) | dict(zip(token, values, strict=True))
        )
        for number, values in enumerate(columns_of)
    ]
    return Decoded(verdict, verdict.path, nodes)


def column(rows: Tensor, name: str) -> list[float]:
    """One field of all nodes."""
    return [getattr(node, name) for node in decoded(rows).nodes]


@pytest.mark.parametrize("rule", RULES)
def test_measuring_changes_no_decision(rule: str) -> None:
    trees = "chain of 3", "branching", "duplicates"
    for mode, sampling, tree in product(DraftMode, SAMPLINGS, trees):
        if not takes(rule, tree, sampling, mode):
            continue
        logits, draft, u = drawn_case(tree, 3)
        measured = columns(logits, draft, rule, sampling, u, mode=mode)
        plain = columns(logits, draft, rule, sampling, u, mode=mode, telemetry=False)
        full, bare = decoded(measured), decoded(plain)
        for name in ("keep", "strict", "parent", "id", "own", "emit", "z1"):
            assert [vars(node)[name] for node in full.nodes] == [
                vars(node)[name] for node in bare.nodes
            ]
        assert (full.path, full.children) == (bare.path, bare.children)
        assert math.isnan(bare.nodes[0].tv) and bare.nodes[0].top_ids == ()


@pytest.mark.parametrize(
    ("rule", "values"),
    [
        ("strict", {}),
        ("threshold", {}),
        ("mars-algorithm1", {"theta": 1}),
        ("topk-delta", {"delta": 0}),
        ("topk-ratio", {"ratio": 1}),
    ],
)
def test_of_equal_logits_the_first_is_the_best_for_every_part_of_the_code(
    rule: str, values: dict[str, float]
) -> None:
    """Ties of the two best are common in bf16. At temperature 0 the target's token is the first of
    them; top-1 must be the same one."""
    for seed in range(20):
        logits = torch.randn(2, 50, generator=torch.Generator().manual_seed(seed))
        first, second = sorted(
            torch.randperm(50, generator=torch.Generator().manual_seed(seed))[:2].tolist()
        )
        logits[:, [first, second]] = 9.0
        draft = chain_draft(torch.tensor([0, first]), torch.ones(1))
        verdict = decide(logits, draft, rule, Sampling(0.0), chance(draft, 0), values)
        assert verdict.nodes[0].own == first
        assert (verdict.path, verdict.nodes[0].tv, verdict.nodes[1].emit) == ((0, 1), 0, first)


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_never_emits_what_p_excludes_unless_kl_is_infinite(rule: str) -> None:
    """At the ends of the uniform too, and with all noise for one token. No distance is negative."""
    for seed, (tree, values) in enumerate(product(TREES, (None, {}))):
        sampling = SAMPLINGS[seed % len(SAMPLINGS)]
        if not takes(rule, tree, sampling):
            continue
        logits, draft = case(tree, seed)
        p, count = target_distribution(logits.float(), sampling), draft.depth + 1
        for uniform, drawn in product((0.0, 1 - 2**-53), range(V)):
            u = picked(*[[drawn]] * count, uniform=[uniform] * count)
            verdict = decide(logits.float(), draft, rule, sampling, u, values)
            for number, node in enumerate(verdict.nodes):
                kept = [at for at in verdict.children[number] if verdict.nodes[at].keep]
                token = verdict.nodes[kept[0]].id if kept else node.emit
                assert min(node.tv, node.kl) >= 0
                assert p[number, int(token)] > 0 or node.kl == math.inf


def test_a_child_that_the_target_draws_goes_before_a_relaxed_one() -> None:
    logits = torch.tensor([[5.0, 4.9, 0.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]], dtype=torch.float64)
    parents, depths = torch.tensor([0, 0]), torch.tensor([0, 1, 1])
    draft = Draft(torch.tensor([2, 0, 1]), parents, depths, torch.ones(2), 1, False)
    for token, path in [(0, (0, 1)), (1, (0, 2)), (2, (0, 1))]:
        u = picked([token], [0], size=3)
        assert decide(logits, draft, "mars", Sampling(1.0), u).path == path
