"""Numbers from hand-made steps, and the cause of every kind of divergence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from mars_core import telemetry
from mars_core.telemetry import SHIFTED, first_divergence, loop_of, loops_within, summarise
from mars_core.types import UNKNOWN, Cause, DraftNode, Outcome, PrefixToken, Step, Token, Trace
from tests.traces import make_trace

A, X, R, C, B = (
    Outcome.ACCEPTED,
    Outcome.RELAXED,
    Outcome.REJECTED,
    Outcome.RECOVERED,
    Outcome.BONUS,
)
FULL = make_trace(rule="strict")
TOKEN = replace(FULL.tokens[0], tv=0.25, kl=0.5, logprob=-2.0)
INF, NAN = math.inf, math.nan
NEXT = (0.0, 0.0, -1.0)  # TV, KL and ln p of a token
FAR = (0.5, INF, -1.0)
SUMS = "tv_sum kl_sum log_likelihood"
MEASURES = f"{SUMS} tv_mean tv_max kl_mean kl_max shifted_share perplexity"
RATES = "tau acceptance_rate relaxed_share draft_s verify_s"


def step(outcomes: Sequence[Outcome], elapsed_s: float, *depths: int) -> Step:
    """A step whose drafted nodes have these depths."""
    nodes = tuple(DraftNode(0, "", depth - 1, depth, 0.5, 0.5, R) for depth in depths)
    accepted = sum(outcome in (A, X) for outcome in outcomes)
    tokens = tuple(replace(TOKEN, outcome=outcome) for outcome in outcomes)
    return Step(0, len(depths), accepted, 0.1, 0.2, elapsed_s, nodes, tokens)


def measured(*values: tuple[float, float, float], outcomes: Sequence[Outcome] = ()) -> Step:
    """A step of tokens with these TV, KL and ln p; without ``outcomes`` bonus tokens."""
    tokens = tuple(
        replace(TOKEN, outcome=outcome, tv=tv, kl=kl, logprob=ln)
        for outcome, (tv, kl, ln) in zip(outcomes or [B] * len(values), values, strict=True)
    )
    return Step(0, 0, 0, 0.1, 0.2, 1.0, (), tokens)


def test_rates_and_sums_of_nothing_are_nan() -> None:
    summary = summarise([], prompt_tokens=1, prefill_s=0.1, peak_memory_bytes=0)
    assert (summary.new_tokens, summary.steps, summary.acceptance_by_position) == (0, 0, ())
    assert all(math.isnan(getattr(summary, name)) for name in f"{RATES} {MEASURES}".split())


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        pytest.param(
            [
                step((A, X, R, C), 1.0, 1, 2, 3, 4),
                step((R, C), 2, 1, 2, 3, 4),
                step((A, A, B), 3, 1, 2),
            ],
            dict(
                **dict(tau=7 / 3, acceptance_rate=0.4, wall_s=3, ttft_s=1, tokens_per_s=7 / 3),
                **dict(acceptance_by_position=(2 / 3, 2 / 3, 0, 0), draft_s=0.3, verify_s=0.6),
                **dict(relaxed_share=1 / 7, shifted_share=1, tv_sum=7 * 0.25, kl_sum=7 * 0.5),
                **dict(tv_mean=0.25, kl_mean=0.5, log_likelihood=-14, perplexity=math.e**2),
            ),
            id="chains",
        ),
        pytest.param(
            [
                step((A, A, B), 1.0, 1, 1, 1, 2, 2, 3, 3),
                step((R, R, C), 2.0, 1, 1, 2, 2, 3),
                step((A, B), 3.0, 1, 1, 1),
                step((B,), 4.0),
            ],
            dict(acceptance_by_position=(2 / 3, 1 / 2, 0), acceptance_rate=3 / 15),
            id="trees, by depth",
        ),
        pytest.param(
            [measured((1.0, INF, -INF), (0.25, 0.5, -2.0), outcomes=(R, C))],
            {"tv_max": 0.25, "kl_max": 0.5, "log_likelihood": -2},
            id="refused tokens are in no mean",
        ),
        pytest.param(
            [measured(NEXT, (SHIFTED, 0, -1)), measured((2 * SHIFTED, 0, -1)), measured(NEXT)],
            {"shifted_share": 1 / 3},
            id="shifted above the threshold only",
        ),
        pytest.param(
            [measured((1.0, INF, -9.0), NEXT), measured((1.0, INF, -2))],
            {"kl_sum": INF, "kl_mean": INF, "kl_max": INF, "perplexity": math.exp(4)},
            id="infinite KL",
        ),
        *(
            pytest.param([measured(*each)], dict.fromkeys(MEASURES.split(), NAN), id="not measured")
            for each in ([(NAN,) * 3, FAR], [FAR, (NAN,) * 3])
        ),
    ],
)
def test_a_summary_is_that_of_its_steps(steps: Sequence[Step], expected: dict[str, Any]) -> None:
    summary = summarise(steps, prompt_tokens=7, prefill_s=0.5, peak_memory_bytes=9)
    for name, value in expected.items():
        assert getattr(summary, name) == pytest.approx(value, nan_ok=True), name


def test_loops_within_a_text_go_from_the_first_repeat_to_after_the_last() -> None:
    """Of three times or more and at least 24 tokens; what is left is a loop too."""
    rest = list(range(100, 130))
    assert loops_within([*rest, *[7, 8, 9] * 8, *rest])[0] == (33, 54)
    assert {after for _, after in loops_within([*rest, *[7, 8, 9] * 8, *rest])} == {54}
    assert loops_within([7, 8, 9] * 7 + rest) == loops_within(rest * 2) == loops_within([]) == []
    assert loops_within([*[7, 8, 9] * 8, UNKNOWN]) == []


def test_loops_are_those_that_trying_every_span_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "LOOP", 6)
    random = Random(3)
    for _ in range(2000):
        ids = random.choices(range(2), k=random.randint(0, 14)) * random.randint(1, 5)
        ids += random.choices(range(3), k=random.randint(0, 2))
        ends = [
            (span, size)
            for words in (ids, ids[:-1])
            for span in range(1, len(words))
            for size in range(max(6, 3 * span), len(words) + 1)
            if words[-size:][span:] == words[-size:][:-span]
        ]
        assert (loop_of(ids)[0] > 0) == bool(ends)
        if ends:
            span, start = loop_of(ids)
            assert any(each == span for each, _ in ends)
            assert ids[start : len(ids) - 1] == ids[start - span : len(ids) - 1 - span]
    assert loop_of([*ids, UNKNOWN]) == (UNKNOWN, UNKNOWN)
    monkeypatch.undo()
    for repeats, loop in ((3, (8, 8)), (2, (0, -1))):  # three times or more in a row
        assert loop_of(list(range(8)) * repeats) == loop


def test_before_a_loop_the_numbers_are_those_of_the_steps_that_end_there() -> None:
    trace = make_trace(rule="strict", new_tokens=40)
    steps = list(trace.steps)
    (whole,) = [trace.summary]
    assert math.isnan(whole.tau_before_loop) and whole.loop_start == -1
    again = [
        replace(
            step,
            tokens=tuple(
                replace(token, id=7) if token.outcome is not R else token for token in step.tokens
            ),
            elapsed_s=steps[-1].elapsed_s + step.elapsed_s / 10,
        )
        for step in steps
    ]
    looped = summarise([*steps, *again], prompt_tokens=7, prefill_s=0.5, peak_memory_bytes=9)
    assert (looped.loop_tokens, looped.loop_start) == (1, whole.new_tokens + 1)
    assert (looped.tau_before_loop, looped.tokens_per_s_before_loop) == pytest.approx(
        (whole.tau, whole.tokens_per_s)
    )
    assert looped.tokens_per_s > 1.5 * looped.tokens_per_s_before_loop


def with_token(trace: Trace, position: int, **changes: Any) -> Trace:
    """The trace with one emitted token changed."""

    def changed(each: Token) -> Token:
        here = each.position == position and each.outcome is not R
        return replace(each, **changes) if here else each

    steps = tuple(replace(each, tokens=tuple(map(changed, each.tokens))) for each in trace.steps)
    return replace(trace, steps=steps)


@pytest.mark.parametrize(
    ("left", "right", "own", "cause"),
    [
        (C, X, 1, Cause.RELAXED),
        (A, C, 1, Cause.TIGHTENED),
        (C, C, 1, Cause.REDRAWN),
        (A, A, 2, Cause.NUMERIC),
    ],
)
def test_cause_of_a_divergence(left: Outcome, right: Outcome, own: int, cause: Cause) -> None:
    """``own``: the target's token of the second run; that of the first is 1."""
    one = with_token(FULL, 5, id=100_001, edge=0.5, outcome=left, own=1)
    two = with_token(FULL, 5, id=100_002, edge=1e-7, outcome=right, own=own)
    divergence = first_divergence(one, two)
    assert divergence is not None and (divergence.position, divergence.cause) == (5, cause)
    assert divergence.gap == 1e-7 if cause is Cause.NUMERIC else math.isnan(divergence.gap)


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


SHORTER = replace(FULL, steps=FULL.steps[:-1])
BEGUN, ALL = (begun_with(FULL, 4, new) for new in (3, len(FULL.tokens) - 4))
ANSWERED = replace(
    FULL,
    config=replace(FULL.config, prompt=FULL.config.prompt.then("No.", FULL.config.prompt.text)),
)
CHOSEN = replace(BEGUN, given=(*BEGUN.given[:3], BEGUN.given[3]._replace(id=100_001)))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (FULL, FULL, None),
        (FULL, ALL, None),
        (FULL, SHORTER, (len(SHORTER.tokens), Cause.LENGTH)),
        (BEGUN, begun_with(FULL, 0, 2), (2, Cause.LENGTH)),
        (FULL, with_token(ALL, 6, id=100_001, outcome=X), (6, Cause.RELAXED)),
        (FULL, ANSWERED, None),
        (with_token(FULL, 6, id=100_001, outcome=X), ANSWERED, (6, Cause.HISTORY)),
        (FULL, CHOSEN, (3, Cause.CHOSEN)),
        (BEGUN, CHOSEN, (3, Cause.CHOSEN)),
    ],
)
def test_runs_part_by_output_position_prefix_included(
    one: Trace, other: Trace, expected: tuple[int, Cause] | None
) -> None:
    for divergence in (first_divergence(one, other), first_divergence(other, one)):
        assert (divergence and (divergence.position, divergence.cause)) == expected
        assert divergence is None or math.isnan(divergence.gap)
