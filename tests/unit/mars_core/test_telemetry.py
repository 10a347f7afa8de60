"""Numbers from hand-made steps, and the cause of every kind of divergence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from mars_core.telemetry import first_divergence, summarise
from mars_core.types import Cause, Outcome, Step, Token, Trace
from tests.traces import make_trace


@pytest.fixture(scope="module")
def token() -> Token:
    return make_trace(rule="strict").tokens[0]


def step(token: Token, outcomes: Sequence[Outcome], drafted: int, elapsed_s: float) -> Step:
    kept = sum(outcome in (Outcome.ACCEPTED, Outcome.RELAXED) for outcome in outcomes)
    tokens = tuple(replace(token, outcome=outcome, tv=0.25) for outcome in outcomes)
    return Step(0, drafted, kept, 0.1, 0.2, elapsed_s, tuple(range(drafted)), tokens)


def test_summary_of_hand_made_steps(token: Token) -> None:
    a, x, r, c, b = Outcome.ACCEPTED, Outcome.RELAXED, Outcome.REJECTED, Outcome.RECOVERED, Outcome.BONUS
    steps = [step(token, (a, x, r, c), 4, 1.0), step(token, (r, c), 4, 2.0), step(token, (a, a, b), 2, 3.0)]
    summary = summarise(steps, prompt_tokens=7, prefill_s=0.5, ttft_s=1.0, peak_memory_bytes=9)
    assert (summary.new_tokens, summary.steps, summary.tau) == (7, 3, 7 / 3)
    assert (summary.accepted, summary.relaxed, summary.recovered, summary.bonus) == (3, 1, 2, 1)
    assert (summary.drafted, summary.rejected, summary.acceptance_rate) == (10, 6, 0.4)
    assert summary.acceptance_by_position == (2 / 3, 2 / 3, 0, 0)
    assert (summary.wall_s, summary.ttft_s, summary.tokens_per_s) == (3.0, 1.0, 7 / 3)
    assert summary.draft_s == pytest.approx(0.3)
    assert summary.verify_s == pytest.approx(0.6)
    assert summary.relaxed_share == 1 / 7
    assert summary.tv_sum == pytest.approx(7 * 0.25)


def test_rates_of_nothing_are_nan() -> None:
    summary = summarise([], prompt_tokens=1, prefill_s=0.1, ttft_s=math.nan, peak_memory_bytes=0)
    assert (summary.new_tokens, summary.steps, summary.acceptance_by_position) == (0, 0, ())
    assert all(map(math.isnan, (summary.tau, summary.acceptance_rate, summary.relaxed_share)))


def with_token(trace: Trace, position: int, **changes: object) -> Trace:
    """The trace with one emitted token changed."""
    steps = []
    for each in trace.steps:
        tokens = tuple(
            replace(t, **changes) if t.position == position and t.outcome is not Outcome.REJECTED else t
            for t in each.tokens
        )
        steps.append(replace(each, tokens=tokens))
    return replace(trace, steps=tuple(steps))


@pytest.mark.parametrize(
    ("left", "right", "cause"),
    [
        ({"outcome": Outcome.RECOVERED, "own": 1}, {"outcome": Outcome.RELAXED, "own": 1}, Cause.RELAXED),
        ({"outcome": Outcome.ACCEPTED, "own": 1}, {"outcome": Outcome.RECOVERED, "own": 1}, Cause.TIGHTENED),
        ({"outcome": Outcome.RECOVERED, "own": 1}, {"outcome": Outcome.RECOVERED, "own": 1}, Cause.REDRAWN),
        ({"outcome": Outcome.ACCEPTED, "own": 1}, {"outcome": Outcome.ACCEPTED, "own": 2}, Cause.NUMERIC),
    ],
)
def test_cause_of_a_divergence(left: dict[str, object], right: dict[str, object], cause: Cause) -> None:
    trace = make_trace(rule="strict")
    one = with_token(trace, 5, id=100_001, edge=0.5, **left)
    two = with_token(trace, 5, id=100_002, edge=1e-7, **right)
    found = first_divergence(one, two)
    assert found is not None
    assert (found.position, found.cause) == (5, cause)
    assert found.gap == 1e-7 if cause is Cause.NUMERIC else math.isnan(found.gap)


def test_equal_texts_do_not_diverge_and_a_shorter_one_does_at_its_end() -> None:
    trace = make_trace(rule="strict")
    assert first_divergence(trace, trace) is None
    shorter = replace(trace, steps=trace.steps[:-1])
    found = first_divergence(trace, shorter)
    assert found is not None
    assert (found.position, found.cause) == (len(shorter.tokens), Cause.LENGTH)
