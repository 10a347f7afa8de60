"""What the lanes of a comparison are asked next, and what each goes on from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evaluation.study.result import answer
from mars_core.numbers import quoted
from mars_core.types import PromptConfig, Status, Trace

HISTORIES: Mapping[str, str] = {  # name → title
    "own": "Each lane goes on from its own answers",
    "baseline": "All go on from the leftmost lane that answered",
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
    answered = [_answered(trace) for trace in traces]
    if not any(answered):
        raise ValueError("No lane has an answer to go on from; press Compare first.")
    if history == "own" and not all(answered):
        raise ValueError(
            f"Lane {answered.index(None) + 1} has no answer to go on from in this turn; let "
            "all lanes go on from the leftmost that answered."
        )
    leftmost = next(filter(None, answered))
    sources = answered if history == "own" else [leftmost] * len(traces)
    return tuple(each.config.prompt.then(answer(each), question) for each in sources if each)


def _answered(trace: Trace | None) -> Trace | None:
    """Return the run if its text is an answer: that of a failed run is none."""
    ended = trace is not None and trace.status is Status.COMPLETED
    stopped = trace is not None and trace.status is Status.CANCELLED and trace.text
    return trace if ended or stopped else None
