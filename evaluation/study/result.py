"""Results of one lane of a task: absolute (LaneResult) and relative to its baseline (Relative), from
the traces of its runs."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, zip_longest
from typing import TYPE_CHECKING, Any

from evaluation.plan.stored import plain, read
from evaluation.scoring.answer import THINKS, THOUGHT, after_reasoning
from evaluation.scoring.overlap import overlap
from evaluation.study.placebo import due
from mars_core.telemetry import first_divergence, loops_within
from mars_core.types import (
    UNKNOWN,
    Cause,
    Divergence,
    Outcome,
    Status,
    StopReason,
    Summary,
    Trace,
)

if TYPE_CHECKING:
    from storage import RunRecord

NAN = math.nan
BATCH = "batch"  # of a run's environment: how many were decoded together
_COUNTS = ("prompt_tokens", "new_tokens", "steps", "drafted", "accepted", "relaxed")
_SUMS = ("wall_s", "prefill_s", "draft_s", "verify_s", "tv_sum", "kl_sum", "log_likelihood")


@dataclass(frozen=True, slots=True)
class LaneResult:
    """One lane of one task, all turns of a conversation together: counts and seconds are sums, so
    that they can be pooled.

    ``scores``: metric → 0 to 1, empty where the item has no reference. ``drafted_at``, ``kept_at``:
    steps that drafted, and kept, a token at draft position i + 1. Undefined rates are nan, and so
    are counts that a server did not report.
    """

    status: Status
    error: str = ""  # one sentence; only with status failed
    turns: int = 1  # number of turns that were run
    ended: bool = False  # every turn ended by its end token or a stop string, not by max_new_tokens
    prompt_tokens: float = 0
    new_tokens: float = 0
    characters: int = 0
    steps: float = 0
    drafted: float = 0
    accepted: float = 0
    relaxed: float = 0
    due: float = NAN  # of a placebo: as many as the rule relaxed here
    eligible: float = NAN  # of the rule's rejections that might have been relaxed
    wall_s: float = 0.0
    prefill_s: float = 0.0
    draft_s: float = 0.0
    verify_s: float = 0.0
    tv_sum: float = 0.0
    tv_max: float = NAN
    kl_sum: float = 0.0  # nats
    log_likelihood: float = 0.0  # under the target, nats
    drafted_at: tuple[int, ...] = ()
    kept_at: tuple[int, ...] = ()
    scores: Mapping[str, float] = field(default_factory=dict)
    ttft_s: float = NAN  # time to the first token, of the first turn
    batch: int = 1  # runs that were decoded together; of several, times of one are unknown
    batch_s: float = NAN  # the run's part of the time of its batch
    overshoot_max: float = NAN
    looped: float = NAN  # 1 if any turn has a loop, else 0
    loop_relaxed: float = NAN  # 1 if the first repeat of a loop begins with a relaxed token, else 0
    loops_left: float = NAN  # within the text
    loops_left_by_bonus: float = NAN  # by the token after a draft that was kept whole
    stop_reason: str = ""  # of the last turn
    answered: float = NAN  # 1 if the last turn has a text after its reasoning, else 0
    reasoning_tokens: float = NAN  # to the end of the reasoning
    reasoning_s: float = NAN

    def as_dict(self) -> dict[str, Any]:
        """Plain values for the store; non-finite numbers become strings."""
        return plain(self)


@dataclass(frozen=True, slots=True)
class Relative:
    """One lane relative to its baseline, strict with the same drafter (for ``none``: the first
    strict lane). Scores are 0 to 1."""

    same: bool  # token for token
    same_as_none: bool | None = None  # None without a lane ``none``
    divergence: int | None = (
        None  # first differing output position over all turns; None also if tokens are unknown
    )
    cause: str = ""  # mars_core.types.Cause of it
    bleu: float = NAN  # sentence BLEU, the baseline's text as reference
    chrf: float = NAN
    rouge_l: float = NAN

    def as_dict(self) -> dict[str, Any]:
        return plain(self)


def read_result(stored: Mapping[str, Any]) -> LaneResult:
    """Read the result of ``as_dict``. Raises ValueError if this version cannot read it."""
    return read(LaneResult, stored, "error", "drafted_at", "kept_at", "scores")


def read_relative(stored: Mapping[str, Any]) -> Relative:
    """Read the value of ``as_dict``. Raises as ``read_result``."""
    return read(Relative, stored, "cause")


def answer(run: Trace | RunRecord) -> str:
    """Return the text of a run without the stop string that ended it, unless that is a special
    token, which is not in the text."""
    ends = (
        [run.text.find(stop) for stop in run.config.prompt.stop]
        if run.stop_reason is StopReason.STOP_STRING
        else []
    )
    return run.text[: min((end for end in ends if end >= 0), default=None)]


def result_of(
    traces: Sequence[Trace], scores: Mapping[str, float], batch_s: float = NAN
) -> LaneResult:
    """Sum up the result of a lane; ``traces``: one per turn, at least one."""
    last, summaries = traces[-1], [trace.summary for trace in traces]
    steps = [step for trace in traces for step in trace.steps]
    left = [outcome is Outcome.BONUS for trace in traces for outcome in _left(trace)]
    depths = [step.depth for step in steps]
    positions, reasoning = range(1, max(depths, default=0) + 1), list(map(_reasoning, traces))
    counts = {name: [getattr(summary, name) for summary in summaries] for name in _COUNTS}
    sums: dict[str, Any] = {
        name: NAN if UNKNOWN in each else sum(each) for name, each in counts.items()
    }
    sums |= {name: math.fsum(getattr(summary, name) for summary in summaries) for name in _SUMS}
    return LaneResult(
        status=last.status,
        error=last.error,
        turns=len(traces),
        ended=all(
            trace.stop_reason in (StopReason.EOS, StopReason.STOP_STRING) for trace in traces
        ),
        characters=sum(len(trace.text) for trace in traces),
        ttft_s=summaries[0].ttft_s,
        batch=int(last.config.environment.get(BATCH, 1)),
        batch_s=batch_s,
        drafted_at=tuple(sum(depth >= number for depth in depths) for number in positions),
        kept_at=tuple(sum(step.kept >= number for step in steps) for number in positions),
        scores=dict(scores),
        tv_max=max((summary.tv_max for summary in summaries), default=math.nan),
        overshoot_max=max(summary.overshoot_max for summary in summaries),
        looped=_known(summaries, any(summary.loop_tokens for summary in summaries)),
        loop_relaxed=_known(summaries, any(map(_relaxed_into_loop, traces))),
        loops_left=_known(summaries, len(left)),
        loops_left_by_bonus=_known(summaries, sum(left)),
        stop_reason=last.stop_reason.value,
        answered=float(
            bool(after_reasoning(answer(last)).strip())
            and not reasoning[-1][0] >= max(1, summaries[-1].new_tokens)
        ),
        reasoning_tokens=math.fsum(tokens for tokens, _ in reasoning),
        reasoning_s=math.fsum(seconds for _, seconds in reasoning),
        **due(traces),
        **sums,
    )


def without_shifts(result: LaneResult) -> LaneResult:
    """Return the result of runs that do not know the distribution that their distances are wanted
    from."""
    return replace(result, tv_sum=NAN, kl_sum=NAN, tv_max=NAN, overshoot_max=NAN)


def _known(summaries: Sequence[Summary], loops: int) -> float:
    """nan where ids of tokens are not known."""
    unknown = any(summary.loop_tokens == UNKNOWN for summary in summaries)
    return NAN if unknown else float(loops)


def _left(trace: Trace) -> list[Outcome]:
    """Return the outcomes of the tokens with which a loop within the text was left. The last token,
    as an end of turn, leaves none."""
    ids = trace.token_ids
    left = {after for _, after in loops_within(ids)}
    return [trace.tokens[at].outcome for at in sorted(left) if at < len(ids) - 1]


def _relaxed_into_loop(trace: Trace) -> bool:
    start = trace.summary.loop_start
    return start != UNKNOWN and trace.tokens[start].outcome is Outcome.RELAXED


def _reasoning(trace: Trace) -> tuple[float, float]:
    """Return the tokens and seconds up to the end of the reasoning: none without one, all where it does
    not end."""
    pieces = [token.piece for token in trace.tokens]
    if len(pieces) != trace.summary.new_tokens:
        return NAN, NAN
    text = "".join(pieces)
    end = text.rfind(THOUGHT) + len(THOUGHT)
    if THOUGHT not in text:
        end = len(text) if THINKS in text or trace.config.prompt.thinking else 0
    tokens = bisect_left(list(accumulate(map(len, pieces), initial=0)), end)
    steps = list(accumulate((len(step.emitted) for step in trace.steps), initial=0))
    at = bisect_left(steps, tokens)
    return tokens, trace.steps[at - 1].elapsed_s if at else 0.0


def refused(error: ValueError) -> LaneResult:
    """Return the result of a lane that could not be started."""
    return LaneResult(Status.FAILED, error=str(error), turns=0)


def relative_of(
    traces: Sequence[Trace], baseline: Sequence[Trace], none: Sequence[Trace] | None
) -> Relative:
    """Compare one lane relative to its baseline; a baseline is compared with itself."""
    position, divergence = _first_divergence(traces, baseline)
    known = all(len(trace.tokens) == trace.summary.new_tokens for trace in (*traces, *baseline))
    close = overlap(*("\n".join(map(answer, each)) for each in (traces, baseline)))
    return Relative(
        same=divergence is None,
        same_as_none=None if none is None else _first_divergence(traces, none)[1] is None,
        divergence=None if divergence is None or not known else position,
        cause="" if divergence is None else str(divergence.cause),
        **close._asdict(),
    )


def _first_divergence(
    traces: Sequence[Trace], others: Sequence[Trace]
) -> tuple[int, Divergence | None]:
    """Find the first difference of two conversations, counted over the tokens of all turns. Before
    it the prompts are equal too."""
    before = 0
    for left, right in zip_longest(traces, others):
        if left is None or right is None:  # one conversation failed before this turn
            return before, Divergence(0, Cause.LENGTH, math.nan) if (left or right).tokens else None
        divergence = first_divergence(right, left)
        if divergence is not None:
            return before + divergence.position, divergence
        before += len(left.tokens)
    return before, None
