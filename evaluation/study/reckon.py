"""Traces to numbers: what a lane came to alone, and beside its baseline. Knows no store and no model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest

from evaluation.scoring.overlap import Overlap, overlap
from evaluation.study.conversation import answer
from evaluation.study.result import Relative, Result
from mars_core.telemetry import first_divergence
from mars_core.types import Cause, Divergence, Status, Step, StopReason, Trace


def result_of(traces: Sequence[Trace], scores: Mapping[str, float]) -> Result:
    """What a lane came to; ``traces``: one a turn, at least one."""
    last = traces[-1]
    steps = [step for trace in traces for step in trace.steps]
    depths = [max((node.depth for node in step.nodes), default=0) for step in steps]
    places = range(1, max(depths, default=0) + 1)
    return Result(
        status=last.status,
        error=last.error,
        turns=len(traces),
        ended=all(trace.stop_reason in (StopReason.EOS, StopReason.STOP_STRING) for trace in traces),
        characters=sum(len(trace.text) for trace in traces),
        drafted_at=tuple(sum(depth >= place for depth in depths) for place in places),
        kept_at=tuple(_kept(steps, place) for place in places),
        scores=dict(scores),
        tv_max=max((trace.summary.tv_max for trace in traces), default=math.nan),
        prompt_tokens=sum(trace.summary.prompt_tokens for trace in traces),
        new_tokens=sum(trace.summary.new_tokens for trace in traces),
        steps=len(steps),
        drafted=sum(trace.summary.drafted for trace in traces),
        accepted=sum(trace.summary.accepted for trace in traces),
        relaxed=sum(trace.summary.relaxed for trace in traces),
        wall_s=_sum(traces, lambda trace: trace.summary.wall_s),
        prefill_s=_sum(traces, lambda trace: trace.summary.prefill_s),
        draft_s=_sum(traces, lambda trace: trace.summary.draft_s),
        verify_s=_sum(traces, lambda trace: trace.summary.verify_s),
        tv_sum=_sum(traces, lambda trace: trace.summary.tv_sum),
        kl_sum=_sum(traces, lambda trace: trace.summary.kl_sum),
        log_likelihood=_sum(traces, lambda trace: trace.summary.log_likelihood),
    )


def refused(error: ValueError) -> Result:
    """What a lane came to that could not be started."""
    return Result(Status.FAILED, error=str(error), turns=0)


def relative_of(
    traces: Sequence[Trace], baseline: Sequence[Trace], none: Sequence[Trace] | None, *, likeness: bool = True
) -> Relative:
    """One lane beside its baseline; a baseline beside itself is the same. ``likeness``: BLEU, chrF and ROUGE-L too."""
    position, found = _parted(traces, baseline)
    close = overlap(_text(traces), _text(baseline)) if likeness else Overlap(math.nan, math.nan, math.nan)
    return Relative(
        same=found is None,
        same_as_none=None if none is None else _parted(traces, none)[1] is None,
        divergence=None if found is None else position,
        cause="" if found is None else str(found.cause),
        bleu=close.bleu,
        chrf=close.chrf,
        rouge_l=close.rouge_l,
    )


def _parted(traces: Sequence[Trace], others: Sequence[Trace]) -> tuple[int, Divergence | None]:
    """Where two conversations part, counted over the tokens of all turns. Up to there the prompts of a turn are the same too."""
    before = 0
    for mine, theirs in zip_longest(traces, others):
        if mine is None or theirs is None:
            return before, _ended_early(mine or theirs)
        found = first_divergence(theirs, mine)
        if found is not None:
            return before + found.position, found
        before += mine.summary.new_tokens
    return before, None


def _ended_early(more: Trace) -> Divergence | None:
    """One conversation has a turn that the other lacks, since it failed."""
    return Divergence(0, Cause.LENGTH, math.nan) if more.tokens else None


def _text(traces: Sequence[Trace]) -> str:
    return "\n".join(answer(trace) for trace in traces)


def _kept(steps: Sequence[Step], place: int) -> int:
    return sum(step.kept >= place for step in steps)


def _sum(traces: Sequence[Trace], number: Callable[[Trace], float]) -> float:
    return math.fsum(number(trace) for trace in traces)
