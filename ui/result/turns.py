"""The turns of a conversation before the one that the lanes show: what was asked, what every lane
answered, and where the answers first differed. No gradio."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from display.format import displayable, plural
from mars_core.types import RunConfig, Status, Trace
from storage import StoredComparison
from ui.kit.labels import lane_labels
from ui.kit.panel import render
from ui.kit.values import plain
from ui.result.sentence import broken_sentence, verdict


class Answer(NamedTuple):
    """What a lane wrote. ``note``: why it is not whole."""

    label: str
    text: str
    note: str


class EarlierTurn(NamedTuple):
    """``says``: what came of it, in plain words."""

    question: str
    answers: tuple[Answer, ...]
    says: str


def turns_html(earlier: Sequence[StoredComparison], configs: Sequence[RunConfig]) -> str:
    """Return the turns before that of the runs with these configurations, and its prompt; nothing
    for a first turn."""
    if not earlier or not configs:
        return ""
    return render(
        "result/turns.html.jinja",
        turns=[_turn(turn) for turn in earlier],
        question=configs[0].prompt.text,
        same=len({config.prompt.history for config in configs}) == 1,
    )


def _turn(stored: StoredComparison) -> EarlierTurn:
    traces = [run.trace for run in stored.runs]
    labels = lane_labels([trace.config for trace in traces])
    answers = tuple(
        Answer(label, trace.text, _note(trace)) for label, trace in zip(labels, traces, strict=True)
    )
    ended = all(trace.status is Status.COMPLETED for trace in traces)
    says = verdict(traces) if ended else broken_sentence([*zip(labels, traces, strict=True)])
    return EarlierTurn(stored.prompt.text, answers, plain(says))


def _note(trace: Trace) -> str:
    if trace.status is Status.FAILED:
        return f"failed: {displayable(trace.error)}"
    tokens = plural(trace.summary.new_tokens, "token")
    return f"stopped after {tokens}" if trace.status is Status.CANCELLED else ""
