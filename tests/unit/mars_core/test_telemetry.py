"""Numbers from hand-made steps, and the cause of every kind of divergence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from mars_core.telemetry import SHIFTED, first_divergence, loop_tokens, summarise
from mars_core.types import Cause, DraftNode, Outcome, PrefixToken, Step, Summary, Token, Trace
from tests.traces import make_trace


@pytest.fixture(scope="module")
def token() -> Token:
    return make_trace(rule="strict").tokens[0]


def step(
    token: Token,
    outcomes: Sequence[Outcome],
    drafted: int,
    elapsed_s: float,
    depths: Sequence[int] = (),
) -> Step:
    """A step of a chain, or of a tree whose nodes have these depths."""
    accepted = sum(outcome in (Outcome.ACCEPTED, Outcome.RELAXED) for outcome in outcomes)
    tokens = tuple(
        replace(token, outcome=outcome, tv=0.25, kl=0.5, logprob=-2.0) for outcome in outcomes
    )
    depths = depths or range(1, drafted + 1)
    nodes = tuple(
        DraftNode(0, "", depth - 1, depth, 0.5, 0.5, Outcome.REJECTED) for depth in depths
    )
    return Step(0, drafted, accepted, 0.1, 0.2, elapsed_s, nodes, tokens)


def summary_of(*steps: Step) -> Summary:
    return summarise(steps, prompt_tokens=7, prefill_s=0.5, peak_memory_bytes=9)


def measured(token: Token, *values: tuple[float, float, float]) -> Step:
    """A step of bonus tokens with these (tv, kl, logprob)."""
    tokens = tuple(
        replace(token, outcome=Outcome.BONUS, tv=tv, kl=kl, logprob=ln) for tv, kl, ln in values
    )
    return Step(0, 0, 0, 0.1, 0.2, 1.0, (), tokens)


def test_summary_of_hand_made_steps(token: Token) -> None:
    a, x, r, c, b = (
        Outcome.ACCEPTED,
        Outcome.RELAXED,
        Outcome.REJECTED,
        Outcome.RECOVERED,
        Outcome.BONUS,
    )
    steps = [
        step(token, (a, x, r, c), 4, 1.0),
        step(token, (r, c), 4, 2.0),
        step(token, (a, a, b), 2, 3.0),
    ]
    summary = summary_of(*steps)
    assert (summary.new_tokens, summary.steps, summary.tau) == (7, 3, 7 / 3)
    assert (summary.accepted, summary.relaxed, summary.recovered, summary.bonus) == (3, 1, 2, 1)
    assert (summary.drafted, summary.rejected, summary.acceptance_rate) == (10, 6, 0.4)
    assert summary.acceptance_by_position == (2 / 3, 2 / 3, 0, 0)
    assert (summary.wall_s, summary.ttft_s, summary.tokens_per_s) == (3.0, 1.0, 7 / 3)
    assert summary.draft_s == pytest.approx(0.3)
    assert summary.verify_s == pytest.approx(0.6)
    assert summary.relaxed_share == 1 / 7
    assert (summary.tv_sum, summary.tv_mean, summary.tv_max) == (7 * 0.25, 0.25, 0.25)
    assert (summary.kl_sum, summary.kl_mean, summary.kl_max) == (7 * 0.5, 0.5, 0.5)
    assert (summary.shifted_share, summary.log_likelihood) == (1.0, -14.0)
    assert summary.perplexity == pytest.approx(math.e**2)


@pytest.mark.parametrize(
    ("ids", "span"),
    [
        ([], 0),
        (list(range(8)) * 3, 8),
        ([0, *list(range(8)) * 3], 8),
        ([*list(range(8)) * 3][:-1], 0),
        ([7] * 24, 8),
        ([*range(100), *list(range(12)) * 3], 0),
        ([*range(100), *list(range(16)) * 3, 5], 16),
        (list(range(32)) * 3, 32),
        ([*list(range(8)) * 3, -1], -1),
    ],
)
def test_a_loop_is_a_span_three_times_in_a_row(ids: list[int], span: int) -> None:
    assert loop_tokens(ids) == span


RATES = "tau acceptance_rate relaxed_share shifted_share perplexity tv_mean tv_max kl_mean kl_max"
SUMS = "tv_sum kl_sum log_likelihood"


def undefined(summary: Summary, names: str) -> bool:
    return all(math.isnan(getattr(summary, name)) for name in names.split())


def test_rates_and_sums_of_nothing_are_nan() -> None:
    summary = summarise([], prompt_tokens=1, prefill_s=0.1, peak_memory_bytes=0)
    assert (summary.new_tokens, summary.steps, summary.acceptance_by_position) == (0, 0, ())
    assert undefined(summary, f"{RATES} {SUMS} draft_s verify_s")


def test_acceptance_in_trees_is_by_depth(token: Token) -> None:
    a, b, r, c = Outcome.ACCEPTED, Outcome.BONUS, Outcome.REJECTED, Outcome.RECOVERED
    steps = [
        step(token, (a, a, b), 7, 1.0, depths=(1, 1, 1, 2, 2, 3, 3)),
        step(token, (r, r, c), 5, 2.0, depths=(1, 1, 2, 2, 3)),
        step(token, (a, b), 3, 3.0, depths=(1, 1, 1)),
        step(token, (b,), 0, 4.0),
    ]
    summary = summary_of(*steps)
    assert summary.acceptance_by_position == (2 / 3, 1 / 2, 0)
    assert (summary.drafted, summary.accepted, summary.rejected, summary.acceptance_rate) == (
        15,
        3,
        12,
        3 / 15,
    )


def test_refused_tokens_are_in_no_mean(token: Token) -> None:
    base = step(token, (Outcome.REJECTED, Outcome.RECOVERED), 1, 1.0)
    refused = replace(base.tokens[0], tv=1.0, kl=math.inf, logprob=-math.inf)
    summary = summary_of(replace(base, tokens=(refused, base.tokens[1])))
    assert (summary.tv_max, summary.kl_max, summary.log_likelihood) == (0.25, 0.5, -2.0)


def test_a_step_is_shifted_above_the_threshold_only(token: Token) -> None:
    exact, rounded = measured(token, (0.0, 0, -1)), measured(token, (0.0, 0, -1), (SHIFTED, 0, -1))
    shifted = measured(token, (0.0, 0, -1), (2 * SHIFTED, 0, -1), (0.5, 0, -1))
    assert summary_of(exact, rounded, shifted, exact).shifted_share == 0.25


def test_an_infinite_kl_is_said_and_breaks_nothing(token: Token) -> None:
    summary = summary_of(
        measured(token, (1.0, math.inf, -9.0), (0.0, 0.0, -1.0)),
        measured(token, (1.0, math.inf, -2)),
    )
    assert (summary.kl_sum, summary.kl_mean, summary.kl_max) == (math.inf,) * 3
    assert summary.perplexity == pytest.approx(math.exp(4))


def test_what_was_not_measured_is_nan(token: Token) -> None:
    nan = math.nan
    for values in (
        [(nan, nan, nan), (0.5, math.inf, -1.0)],
        [(0.5, math.inf, -1.0), (nan, nan, nan)],
    ):
        named = f"{SUMS} tv_mean tv_max kl_mean kl_max shifted_share perplexity"
        assert undefined(summary_of(measured(token, *values)), named)


def with_token(trace: Trace, position: int, **changes: Any) -> Trace:
    """The trace with one emitted token changed."""

    def changed(each: Token) -> Token:
        return (
            replace(each, **changes)
            if each.position == position and each.outcome is not Outcome.REJECTED
            else each
        )

    steps = tuple(replace(each, tokens=tuple(map(changed, each.tokens))) for each in trace.steps)
    return replace(trace, steps=steps)


def position_and_cause(one: Trace, two: Trace) -> tuple[int, Cause] | None:
    divergence = first_divergence(one, two)
    return divergence and (divergence.position, divergence.cause)


@pytest.mark.parametrize(
    ("left", "right", "own", "cause"),
    [
        (Outcome.RECOVERED, Outcome.RELAXED, 1, Cause.RELAXED),
        (Outcome.ACCEPTED, Outcome.RECOVERED, 1, Cause.TIGHTENED),
        (Outcome.RECOVERED, Outcome.RECOVERED, 1, Cause.REDRAWN),
        (Outcome.ACCEPTED, Outcome.ACCEPTED, 2, Cause.NUMERIC),
    ],
)
def test_cause_of_a_divergence(left: Outcome, right: Outcome, own: int, cause: Cause) -> None:
    """``own``: the target's token of the second run; that of the first is 1."""
    trace = make_trace(rule="strict")
    one = with_token(trace, 5, id=100_001, edge=0.5, outcome=left, own=1)
    two = with_token(trace, 5, id=100_002, edge=1e-7, outcome=right, own=own)
    divergence = first_divergence(one, two)
    assert divergence is not None and (divergence.position, divergence.cause) == (5, cause)
    assert divergence.gap == 1e-7 if cause is Cause.NUMERIC else math.isnan(divergence.gap)


def test_equal_texts_do_not_diverge_and_a_shorter_one_does_at_its_end() -> None:
    trace = make_trace(rule="strict")
    assert position_and_cause(trace, trace) is None
    shorter = replace(trace, steps=trace.steps[:-1])
    assert position_and_cause(trace, shorter) == (len(shorter.tokens), Cause.LENGTH)


def begun_with(trace: Trace, count: int, new: int) -> Trace:
    """The trace with its first ``count`` tokens as prefix, and ``new`` of the others written, each
    in a separate step."""
    steps = tuple(
        replace(trace.steps[0], tokens=(token,)) for token in trace.tokens[count : count + new]
    )
    begun = tuple(
        PrefixToken(token.id, token.piece, token.start, token.end) for token in trace.tokens[:count]
    )
    return replace(trace, given=begun, steps=steps)


def test_runs_part_by_output_position_given_tokens_included() -> None:
    full_trace = make_trace(rule="strict")
    assert len(full_trace.tokens) > 8
    begun = begun_with(full_trace, 4, len(full_trace.tokens) - 4)
    assert position_and_cause(full_trace, begun) is position_and_cause(begun, full_trace) is None
    changed = with_token(begun, 6, id=100_001, outcome=Outcome.RELAXED)
    assert (
        position_and_cause(full_trace, changed)
        == position_and_cause(changed, full_trace)
        == (6, Cause.RELAXED)
    )


def test_a_difference_in_a_given_token_was_chosen_and_an_end_before_it_is_only_shorter() -> None:
    full_trace = make_trace(rule="strict")
    begun = begun_with(full_trace, 4, 3)
    chosen = replace(begun, given=(*begun.given[:3], begun.given[3]._replace(id=100_001)))
    pairs = (
        (full_trace, chosen),
        (chosen, full_trace),
        (begun, chosen),
        (begun_with(full_trace, 0, 2), begun),
    )
    divergences = [divergence for one, two in pairs if (divergence := first_divergence(one, two))]
    assert [(each.position, each.cause) for each in divergences] == [(3, Cause.CHOSEN)] * 3 + [
        (2, Cause.LENGTH)
    ]
    assert all(math.isnan(each.gap) for each in divergences[:3])
