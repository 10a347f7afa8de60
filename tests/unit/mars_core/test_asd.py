"""Accumulated-regret decoding: its three limits, and the ledger of a run."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from mars_core.rules import RULES
from mars_core.sampling import Chance
from mars_core.types import DraftMode, Outcome, Sampling
from mars_core.verification import (
    Draft,
    RunState,
    Terms,
    chain_draft,
    received_states,
    walk,
)
from tests.live_pairs import DRAFTS, config_for, decoded, ready_pair
from tests.unit.mars_core.test_verification import (
    Decoded,
    columns,
    drawn_case,
    picked,
)
from tests.unit.mars_core.test_verification import (
    decoded as rows_of,
)

VALUES = {"budget": 2.0, "gate": 0.5, "mismatches": 2.0}


def row_of(
    logits: Tensor, draft: Draft, u: Chance, spent: float, sampling: Sampling, **values: float
) -> Tensor:
    run = received_states(torch.tensor(RunState(regret=spent).words))
    return columns(logits, draft, "asd", sampling, u, VALUES | values, run=run)


def longest(
    logits: list[list[float]], drafted: list[int], spent: float, values: dict[str, float]
) -> tuple[int, float]:
    """How many drafted tokens the source keeps at temperature 0, and the ledger after them."""
    relaxed = 0
    for at, (z, x) in enumerate(zip(logits, drafted, strict=False)):
        if x != z.index(max(z)):
            regret = max(z) - z[x]
            if (
                regret / (len(drafted) - at) > values["gate"]
                or spent + regret > values["budget"]
                or relaxed == values["mismatches"]
            ):
                return at, spent
            relaxed, spent = relaxed + 1, spent + regret
    return len(drafted), spent


@pytest.mark.parametrize("mismatches", [0, 1, 2])
@pytest.mark.parametrize("gate", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("budget", [0.0, 1.0, 3.0])
def test_at_temperature_0_the_path_is_that_of_the_source(
    budget: float, gate: float, mismatches: int
) -> None:
    values = {"budget": budget, "gate": gate, "mismatches": mismatches}
    state, relaxed = RunState(), 0
    for seed in range(20):
        logits, draft, u = drawn_case("chain of 3", seed)
        row = row_of(logits, draft, u, state.regret, Sampling(0.0), **values)
        verdict = walk(row.tolist())
        drafted = draft.ids[1:].tolist()
        accepted, spent = longest(logits.tolist(), drafted, state.regret, values)
        terms = Terms(RULES["asd"], values, Sampling(0.0), DraftMode.GREEDY)
        state = state.after(verdict, [0] * len(verdict.path), terms)
        assert (len(verdict.path) - 1, state.regret) == (accepted, pytest.approx(spent))
        assert state.regret <= budget + 1e-12
        relaxed += sum(not verdict.nodes.column("strict")[node] for node in verdict.path[1:])
    assert (relaxed > 0) is (0 not in values.values())


def test_what_the_target_draws_itself_is_free_and_what_is_relaxed_before_counts() -> None:
    """Of one draft too."""
    logits = torch.tensor([[2.0, 1.2, 0.0]] * 4, dtype=torch.float64)
    draft = chain_draft(torch.tensor([0, 1, 1, 1]), torch.ones(3))

    def decided(*drawn_ids: int, **values: float) -> Decoded:
        u = picked(*([each] for each in (*drawn_ids, 0)), size=3)
        return rows_of(row_of(logits, draft, u, 0.0, Sampling(1.0), gate=10, **values))

    assert decided(0, 0, 0, budget=9.0).path == (0, 1, 2)  # M = 2
    assert decided(0, 0, 0, budget=1.5).path == (0, 1)
    assert decided(1, 0, 1, budget=1.5).path == (0, 1, 2, 3)
    spent = [node.regret for node in decided(0, 1, 0, budget=9.0).nodes]
    assert spent == pytest.approx([0, 0.8, 0.8, 1.6])


@pytest.mark.parametrize(
    ("name", "temperature"),
    [("greedy chain", 0.0), ("greedy chain", 1.0), ("coupled chain", 1.0), ("sampled chain", 1.0)],
)
def test_a_run_spends_its_budget_and_no_more(name: str, temperature: float) -> None:
    pair, sampling = ready_pair(), Sampling(temperature)
    options = {"rule": "asd", "gate": 1.0, "new": 24}
    configs = [
        config_for(pair, DRAFTS[name], sampling, seed=seed, budget=budget, **options)
        for seed, budget in enumerate((0.6, 0.0, 1e5))
    ]
    alone = [decoded(pair, config) for config in configs]
    for trace, budget in zip(alone, (0.6, 0.0, 1e5), strict=True):
        spent = 0.0
        for token in trace.tokens:
            assert token.regret == pytest.approx(spent, abs=1e-5)
            if token.outcome is Outcome.RELAXED:
                best = max(token.top, key=lambda each: each.p)
                at_1 = math.log(best.p) - token.logprob  # p is softmax(z) at 0 and 1
                assert token.regret + at_1 <= budget + 1e-5
                spent += at_1
    strict = decoded(pair, config_for(pair, DRAFTS[name], sampling, seed=1, new=24))
    assert alone[1].token_ids == strict.token_ids
    assert any(token.outcome is Outcome.RELAXED for token in alone[2].tokens)
