"""What a lane came to is the sum of its turns; where two conversations part is counted over all
turns."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from evaluation.plan.lane import Lane
from evaluation.study.placebo import placebo_of
from evaluation.study.result import (
    answer,
    read_relative,
    read_result,
    refused,
    relative_of,
    result_of,
)
from mars_core.telemetry import first_divergence
from mars_core.types import (
    UNKNOWN,
    DraftMode,
    Outcome,
    PromptConfig,
    RuleConfig,
    Status,
    StopReason,
    Token,
    Trace,
)
from tests.traces import make_trace
from tests.unit.evaluation.calls import expect


def with_tokens(trace: Trace, change: Callable[[Token], Token]) -> Trace:
    steps = (replace(each, tokens=tuple(map(change, each.tokens))) for each in trace.steps)
    return replace(trace, steps=tuple(steps))


STRICT = [make_trace(seed=seed, new_tokens=30) for seed in (1, 2)]
MARS = [make_trace(seed=seed, new_tokens=30, rule="mars", theta=0.3) for seed in (1, 2)]


def test_counts_and_seconds_are_sums_over_the_turns() -> None:
    result, tokens = result_of(MARS, {}), [token for trace in MARS for token in trace.tokens]
    expect(result, turns=2, new_tokens=len(tokens), ended=False)  # cut by their length
    assert result.steps == sum(len(trace.steps) for trace in MARS)
    assert result.wall_s == pytest.approx(sum(trace.summary.wall_s for trace in MARS))
    assert result.relaxed == sum(token.outcome is Outcome.RELAXED for token in tokens)
    assert result.log_likelihood == pytest.approx(sum(token.logprob for token in tokens))
    assert result.tv_max == max(token.tv for token in tokens)
    for trace in MARS:
        one = result_of([trace], {})
        rates = [kept / drafted for kept, drafted in zip(one.kept_at, one.drafted_at, strict=True)]
        assert rates == pytest.approx(list(trace.summary.acceptance_by_position))
    last = make_trace(status=Status.FAILED, error="Out of memory.", new_tokens=5)
    expect(result_of([STRICT[0], last], {}), status=Status.FAILED, error="Out of memory.", turns=2)


@pytest.mark.parametrize("mode", [DraftMode.SAMPLED, DraftMode.GREEDY])
def test_what_strict_accepts_is_no_rejection_to_imitate(mode: DraftMode) -> None:
    """A rule may reject it: here all that are rejected."""

    def tightened(trace: Trace, *, strict: bool) -> Trace:
        own, change = strict, dict[str, Any]()
        if mode is DraftMode.SAMPLED:  # accepted up to p/q, whatever the target's own token is
            own, change = not strict, {"coin": 0.5, "p": 0.4, "q": 0.7 if strict else 0.9}

        def rejected(token: Token) -> Token:
            if token.outcome is not Outcome.REJECTED:
                return token
            return replace(token, **change, own=token.id if own else -2)

        config = replace(
            trace.config,
            drafter=replace(trace.config.drafter, mode=mode),
            sampling=replace(trace.config.sampling, temperature=1.0),
        )
        return replace(with_tokens(trace, rejected), config=config)

    def eligible(trace: Trace) -> object:
        lane = Lane(RuleConfig("placebo"), trace.config.drafter, trace.config.rule)
        return placebo_of(trace, lane, 0).parameters["of"]

    for trace in MARS:
        rejected = trace.summary.relaxed + trace.summary.recovered
        assert eligible(tightened(trace, strict=False)) == eligible(trace) == rejected
        assert eligible(tightened(trace, strict=True)) == trace.summary.relaxed > 0


def test_results_survive_json_with_what_is_no_number() -> None:
    relative = relative_of(MARS, STRICT, None)
    results = (
        replace(result_of(MARS, {"m": math.nan}), kl_sum=math.inf),
        refused(ValueError("Too long.")),
    )
    for read, value in (*((read_result, each) for each in results), (read_relative, relative)):
        again = read(json.loads(json.dumps(value.as_dict(), allow_nan=False)))
        assert repr(again) == repr(value)
        for changed in ({"colour": 1}, {"cause": 1, "error": 1}):
            with pytest.raises(ValueError, match="another version"):
                read(changed)


def test_a_baseline_beside_itself_is_the_same() -> None:
    relative = relative_of(STRICT, STRICT, STRICT)
    expect(relative, same=True, same_as_none=True, divergence=None, cause="")
    expect(relative, bleu=1, chrf=1, rouge_l=1)


def test_the_position_where_conversations_part_counts_the_turns_before() -> None:
    parted = first_divergence(STRICT[1], MARS[1])
    assert parted is not None
    relative = relative_of([STRICT[0], MARS[1]], STRICT, None)
    assert not relative.same
    assert relative.divergence == len(STRICT[0].tokens) + parted.position
    assert relative.cause == str(parted.cause) == "relaxed"
    first = first_divergence(STRICT[0], MARS[0])
    assert first is not None and relative_of(MARS, STRICT, None).divergence == first.position
    shorter = relative_of(STRICT[:1], STRICT, None)
    expect(shorter, same=False, divergence=30, cause="length")


def test_an_answer_is_without_the_stop_string_that_ended_it() -> None:
    trace = make_trace(new_tokens=20)
    stop = trace.text[10:13]

    def stopped(*stops: str) -> Trace:
        config = replace(trace.config, prompt=PromptConfig("p", stop=stops))
        return replace(trace, config=config, stop_reason=StopReason.STOP_STRING)

    assert answer(stopped("never", stop)) == trace.text[: trace.text.find(stop)]
    assert answer(replace(stopped(stop), stop_reason=StopReason.LENGTH)) == trace.text
    assert (
        answer(trace) == trace.text == answer(stopped("<|im_end|>"))
    )  # the name of a special token is not in the text


@pytest.mark.parametrize(
    ("pieces", "thinking", "tokens", "answered"),
    [
        (["<think>", "a", "</think>", "b"], None, 3, True),
        (["<thi", "nk>a</th", "ink>\n", "b"], None, 3, True),
        (["a", "</think>", "b", "</think>", " "], None, 4, False),
        (["<think>", "a", "b"], None, 3, False),
        (["a", "b"], True, 2, False),
        (["a", "b"], None, 0, True),
        ([], None, 0, False),
    ],
)
def test_reasoning_ends_at_its_last_mark_and_what_does_not_end_has_no_answer(
    pieces: list[str], thinking: bool | None, tokens: int, answered: bool
) -> None:
    made, words = make_trace(new_tokens=len(pieces), k=1), iter(pieces)
    spoken = with_tokens(
        made,
        lambda each: each if each.outcome is Outcome.REJECTED else replace(each, piece=next(words)),
    )
    prompt = replace(made.config.prompt, thinking=thinking, stop=())
    config = replace(made.config, prompt=prompt)
    result = result_of([replace(spoken, text="".join(pieces), config=config)], {})
    assert (result.reasoning_tokens, result.answered) == (tokens, answered)
    ends = [0.0, *(step.elapsed_s for step in made.steps for _ in step.emitted)]
    assert result.reasoning_s == ends[tokens]


def test_a_loop_within_a_text_is_left_by_the_token_that_does_not_repeat() -> None:
    """Three tokens eight times, then others: left once, by a bonus token. A loop at the end, and
    one that only the end of turn follows, is not left; unknown ids are not a loop."""
    made = make_trace(new_tokens=40)
    (first, *_), rest = made.steps, list(range(100, 116))

    def left(ids: list[int], loop_tokens: int = 0) -> tuple[float, float]:
        tokens = tuple(
            replace(first.emitted[0], id=id_, outcome=(Outcome.ACCEPTED, Outcome.BONUS)[at == 24])
            for at, id_ in enumerate(ids)
        )
        trace = replace(
            made,
            steps=(replace(first, tokens=tokens),),
            summary=replace(made.summary, loop_tokens=loop_tokens),
        )
        result = result_of([trace], {})
        return result.loops_left, result.loops_left_by_bonus

    assert left([7, 8, 9] * 8 + rest) == (1, 1)
    assert left([7, 8, 9] * 7 + rest) == (0, 0)  # too short
    assert left([7, 8, 9] * 9 + rest) == (1, 0)
    assert left(rest + [7, 8, 9] * 8, 3) == left(rest + [7, 8, 9] * 8 + [2], 3) == (0, 0)
    assert all(map(math.isnan, left([UNKNOWN] * 40, UNKNOWN)))


def test_a_loop_is_begun_by_relaxing_where_its_first_repeat_is() -> None:
    made = make_trace(new_tokens=9, rule="mars")
    for outcome, start, begun in (
        (Outcome.RELAXED, 3, 1),
        (Outcome.ACCEPTED, 3, 0),
        (Outcome.RELAXED, UNKNOWN, 0),
    ):
        looping = replace(made.summary, loop_tokens=3 * (start == 3), loop_start=start)
        trace = with_tokens(made, lambda each, outcome=outcome: replace(each, outcome=outcome))  # type: ignore[misc]
        result = result_of([replace(trace, summary=looping)], {})
        assert (result.looped, result.loop_relaxed) == (start == 3, begun)
