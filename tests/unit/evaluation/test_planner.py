"""The planner's formula against simulated chains and counted traces, and its edges."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import fmean

import numpy as np
import pytest

from evaluation.planner import (
    Acceptance,
    Costs,
    Times,
    acceptance_of,
    best,
    costs_of,
    expected_tokens,
    planned,
    times_of,
)
from mars_core.models import BUNDLED_PAIR
from mars_core.session import Session, run_config
from mars_core.types import (
    DrafterConfig,
    DraftMode,
    PromptConfig,
    RuleConfig,
    Sampling,
    Trace,
    TreeShape,
)
from tests.traces import make_trace, make_tree_trace

CHAIN = Acceptance((0.8, 0.6, 0.7), 0.7, ())


@pytest.mark.parametrize("rates", [(0.9,), (0.8, 0.6, 0.7), (1.0, 0.0, 0.5), (0.95,) * 8])
def test_expected_tokens_are_those_of_simulated_chains(rates: tuple[float, ...]) -> None:
    """A pass emits the accepted beginning of the chain and one token of the target."""
    draws = np.random.default_rng(0).random((100_000, len(rates))) < np.array(rates)
    emitted = 1 + np.cumprod(draws, axis=1).sum(axis=1)
    assert expected_tokens(rates) == pytest.approx(
        emitted.mean(), abs=4 * emitted.std() / 100_000**0.5 + 1e-9
    )


@pytest.mark.parametrize("rule", ["strict", "mars"])
def test_at_the_k_of_the_run_the_plan_has_the_runs_tokens_a_pass(rule: str) -> None:
    trace = make_trace(rule=rule, new_tokens=300, k=4)
    trace = replace(trace, steps=trace.steps[:-1])  # the last one may be cut by the token limit
    run = acceptance_of(trace)
    assert run is not None and len(run.rates) == 4 and not run.sizes
    plan = planned(run, Costs(0.1))
    assert plan[3].tokens == pytest.approx(fmean(len(step.emitted) for step in trace.steps))
    assert run.rates[0] == pytest.approx(fmean(step.kept >= 1 for step in trace.steps))
    assert run.rates[1] == pytest.approx(
        fmean(step.kept >= 2 for step in trace.steps if step.kept >= 1)
    )
    assert 0 < run.beyond < 1
    assert [each.extrapolated for each in plan[2:6]] == [False, False, True, True]
    kept = next(step for step in trace.steps if step.kept)
    cut = replace(kept, tokens=kept.tokens[:1])  # the text ends in its draft
    assert acceptance_of(replace(trace, steps=(*trace.steps, cut))) == run


def test_steps_without_drafts_count_in_the_tokens_a_pass_of_the_plan() -> None:
    """As those of a lookup that found nothing."""
    trace = make_trace(new_tokens=300, k=4)
    alone = [
        replace(step, nodes=(), kept=0, tokens=(token,))
        for step in trace.steps[:-1]
        for token in step.emitted[-1:]
    ]
    steps = (*trace.steps[:-1], *alone)
    run = acceptance_of(replace(trace, steps=steps))
    assert run is not None
    assert run.tokens(4) == pytest.approx(fmean(len(step.emitted) for step in steps))


def test_a_run_without_drafts_says_nothing_but_the_time_of_a_pass() -> None:
    trace = make_trace(rule="none", new_tokens=30)
    first = trace.steps[1].elapsed_s - trace.steps[0].elapsed_s
    times = times_of(trace)
    assert acceptance_of(trace) is None and times is not None
    assert (times.draft_s, times.width) == (0, 1) and times.pass_s == pytest.approx(first)
    for steps in (trace.steps[:1], ()):
        short = replace(trace, steps=steps)
        assert acceptance_of(short) is times_of(short) is None


def test_a_full_batch_never_pays() -> None:
    """From the budget on a pass costs as much as its tokens: K drafts of which less than all are
    kept cost more than they bring."""
    for costs in (Costs(0.0, batch=64, budget=64), Costs(1.0)):  # nor does an expensive drafter
        assert best(planned(CHAIN, costs)) is None
    roomy, full = (planned(CHAIN, Costs(0.1, batch=batch, budget=256)) for batch in (1, 64))
    free, rest = ([each.speedup for each in plan[:3]] for plan in (full, roomy))  # 64 · 4
    assert free == pytest.approx(rest)
    assert full[3].speedup == pytest.approx(full[3].tokens / (0.4 + 64 * 5 / 256))
    winner, narrow = best(roomy), best(full)
    assert winner and narrow and narrow.size == 3 <= winner.size


def test_costs_follow_from_times() -> None:
    run_times = Times(0.002, 0.012, 6.0)
    costs = costs_of(run_times, 0.01)
    assert [costs.draft, costs.target(6), costs.target(1)] == pytest.approx([0.2, 1.2, 1])
    assert costs_of(run_times, 0.02).slope == 0  # no slope below the time of one token
    assert costs_of(run_times) == costs_of(run_times, 0.0) == costs_of(run_times, math.inf)
    assert costs_of(Times(0.0, 0.012, 1.0), 0.01).slope == pytest.approx(0.2)
    trace = make_trace(new_tokens=100, k=4)
    slow = replace(trace, steps=tuple(replace(each, verify_s=9.0) for each in trace.steps))
    assert times_of(slow) == pytest.approx((0.0015, 9.0, 5))


def test_a_tree_is_planned_at_smaller_sizes() -> None:
    trace = make_tree_trace(new_tokens=120)
    run = acceptance_of(trace)
    assert run is not None and run.sizes
    plan = planned(run, Costs(0.1, 0.01))
    tokens = [each.tokens for each in plan]
    kept = fmean(step.kept for step in trace.steps)
    assert tokens == sorted(tokens) and tokens[-1] == pytest.approx(1 + kept)
    assert plan[-1].size == max(len(step.nodes) for step in trace.steps)
    draft = 0.1 * len(run.rates)
    expected = [each.tokens / (draft + 1 + 0.01 * each.size) for each in plan]
    assert [each.speedup for each in plan] == pytest.approx(expected)
    assert not any(each.extrapolated for each in plan)


@pytest.mark.parametrize("mode", [DraftMode.GREEDY, DraftMode.COUPLED])
def test_a_smaller_tree_keeps_what_the_planner_expects_of_it(
    bundled_session: Session, mode: DraftMode
) -> None:
    """On the bundled head, from ten beginnings of a text."""
    ids = _with_tree(bundled_session, 32, (), mode, 48).token_ids
    accepted = set()
    for at in range(0, 40, 4):
        large, small = (_with_tree(bundled_session, size, ids[:at], mode) for size in (32, 12))
        expected = acceptance_of(replace(large, steps=large.steps[:1]))
        assert expected is not None and dict(expected.sizes)[12] == small.steps[0].kept
        accepted.add((large.steps[0].kept, small.steps[0].kept))
    assert len(accepted) > 2 and any(less < more for more, less in accepted)


def _with_tree(
    session: Session, size: int, prefix: tuple[int, ...], mode: DraftMode, new: int = 8
) -> Trace:
    config = run_config(
        session.pair,
        prompt=PromptConfig(BUNDLED_PAIR.prompts[0]),
        rule=RuleConfig("strict"),
        drafter=DrafterConfig("eagle3", mode=mode, tree=TreeShape(size, 6, 4)),
        sampling=Sampling(1.0),
        max_new_tokens=new,
        seed=0,
    )
    run = session.start(replace(config, prefix=prefix))
    assert list(run)
    return run.trace()
