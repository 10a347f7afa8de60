"""What the lanes of a comparison are asked next, and what each goes on from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evaluation.study.result import answer
from mars_core.numbers import quoted
from mars_core.types import PromptConfig, Status, Trace

HISTORIES: Mapping[str, str] = {  # name → title
    "own": "Each lane goes on from its own answers",
    "baseline": "All lanes go on from the leftmost lane’s answers",
}


def follow_ups(
    traces: Sequence[Trace | None], question: str, history: str
) -> tuple[PromptConfig, ...]:
    """Return the next turn of every lane. ``traces``: what the lanes wrote, None: nothing;
    ``history``: of HISTORIES. A text that was stopped is an answer as far as it goes. Raises
    ValueError."""
    if history not in HISTORIES:
        known = " or ".join(HISTORIES)
        raise ValueError(f"history is {quoted(history)}; it must be {known}.")
    sources = range(len(traces)) if history == "own" else (0,) * len(traces)
    return tuple(_next(traces[lane], question, lane) for lane in sources)


def _next(trace: Trace | None, question: str, lane: int) -> PromptConfig:
    ended = trace is not None and trace.status is Status.COMPLETED
    if trace is None or trace.status is Status.FAILED or not (ended or trace.text):
        why = "was not started" if trace is None else "failed" if trace.error else "wrote nothing"
        raise ValueError(
            f"Lane {lane + 1} {why} in this turn, so that it has no answer to go on from."
        )
    return trace.config.prompt.then(answer(trace), question)
