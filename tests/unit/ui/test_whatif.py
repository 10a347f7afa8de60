"""What another θ would do, held against what MARS did: on real runs, chains and trees, greedy and sampled drafts."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from mars_core.models import Pair
from mars_core.types import DrafterConfig, DraftMode, Outcome, Sampling, Trace, TreeShape
from tests.live_pairs import config_for, decoded, headed, random_pair
from tests.traces import make_trace, make_tree_trace
from tests.unit.ui.places import judged
from ui.token_view.whatif import HIGH, codes, samples_drafts


@pytest.fixture(scope="module")
def pair() -> Pair:
    return headed(random_pair(eos=frozenset(), noise=0.05))


def run(pair: Pair, drafter: DrafterConfig, theta: float, temperature: float, seed: int, rule: str = "mars") -> Trace:
    more = {"theta": theta} if rule == "mars" else {}
    sampling = Sampling(temperature)
    return decoded(pair, config_for(pair, drafter, sampling, prompt="once upon", rule=rule, new=40, seed=seed, **more))


MADE = make_trace(rule="mars", theta=0.9, new_tokens=90)
CHAIN = DrafterConfig("model", None, 5, DraftMode.GREEDY)
SAMPLED = DrafterConfig("model", None, 5, DraftMode.SAMPLED)
TREE = DrafterConfig("eagle3", None, 5, DraftMode.GREEDY, TreeShape(12, 3, 4))


@pytest.mark.parametrize("drafter", [CHAIN, SAMPLED, TREE], ids=["chain", "sampled", "tree"])
def test_at_the_runs_own_theta_it_says_what_the_run_did(pair: Pair, drafter: DrafterConfig) -> None:
    both = set()
    for seed, (temperature, theta) in enumerate(((0.0, 0.8), (0.0, 1.0), (1.0, 0.5), (1.0, 0.9), (1.0, 0.97))):
        drafts = judged(run(pair, drafter, theta, temperature, seed))
        assert [draft.kept_at(theta) for draft in drafts] == [draft.kept for draft in drafts]
        both |= {(draft.kept, draft.token.r > theta) for draft in drafts}
    assert len(both) == 4  # kept and refused, at low margin and elsewhere
    sampled = [samples_drafts(run(pair, drafter, 0.9, temperature, 0).config) for temperature in (0.0, 1.0)]
    assert sampled == [False, drafter is SAMPLED]


@pytest.mark.parametrize("drafter", [CHAIN, TREE], ids=["chain", "tree"])
def test_what_is_foretold_up_to_the_first_change_is_what_a_run_does(pair: Pair, drafter: DrafterConfig) -> None:
    """Uniforms belong to positions, so a real run at another θ agrees up to the first decision that changes."""
    changed = 0
    for seed in range(3):
        stored, fresh = (run(pair, drafter, theta, 1.0, seed) for theta in (0.97, 0.6))
        first = next((draft for draft in judged(stored) if draft.kept_at(0.6) != draft.kept), None)
        if first is None:
            assert stored.token_ids == fresh.token_ids
            continue
        changed += 1
        assert stored.token_ids[: first.token.position] == fresh.token_ids[: first.token.position]
        assert stored.token_ids[first.token.position] != fresh.token_ids[first.token.position]
        assert fresh.tokens[first.token.position].outcome is Outcome.RELAXED
    assert changed


def test_theta_one_is_strict_on_greedy_drafts(pair: Pair) -> None:
    for drafter in (CHAIN, TREE):
        drafts = judged(run(pair, drafter, 0.6, 1.0, 3))
        assert all(draft.kept_at(1.0) == bool(draft.code & HIGH) for draft in drafts)
        strict = judged(run(pair, drafter, 0.0, 1.0, 3, rule="strict"))
        assert all(draft.kept_at(1.0) == draft.kept for draft in strict)


def test_no_draft_is_more_often_kept_at_a_higher_theta_and_a_margin_without_a_ratio_is_decisive() -> None:
    drafts = judged(make_tree_trace(new_tokens=120))
    kept = [sum(draft.kept_at(theta / 20) for draft in drafts) for theta in range(21)]
    assert kept == sorted(kept, reverse=True) and kept[0] > kept[-1]
    drafts = judged(make_trace(rule="mars", new_tokens=400))
    without = [draft for draft in drafts if math.isnan(draft.token.r)]
    assert without and all(draft.kept_at(0.0) == bool(draft.code & HIGH) for draft in without)


@pytest.mark.parametrize("trace", [MADE, make_tree_trace(new_tokens=90)])
def test_the_codes_name_every_judged_draft_once_at_its_row(trace: Trace) -> None:
    entries = codes(trace).split(",")
    assert len(entries) == len(trace.tokens)
    for entry, token in zip(entries, trace.tokens, strict=True):
        assert (token.outcome is Outcome.BONUS) == (entry == "")
    if trace is MADE:  # a chain has no siblings: without stored nodes it is judged by its tokens alone
        bare = replace(MADE, steps=tuple(replace(step, nodes=()) for step in MADE.steps))
        assert codes(bare) == codes(MADE)
