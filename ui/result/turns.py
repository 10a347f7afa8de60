"""The turns of a conversation before the one that the lanes show: what was asked, what every lane
answered, and where the answers first differed. No gradio."""

from __future__ import annotations

from collections.abc import Sequence

from display.format import plural
from mars_core.types import RunConfig, Status, Trace
from storage import StoredComparison
from ui.kit.labels import lane_labels
from ui.kit.panel import render
from ui.kit.values import plain
from ui.result.sentence import broken_sentence, verdict


def turns_html(
    earlier: Sequence[StoredComparison], configs: Sequence[RunConfig], later: int = 0
) -> str:
    """Return the turns before that of the runs with these configurations, and its prompt; nothing
    for an only one. ``later``: how many there are after it."""
    if not configs or not (earlier or later):
        return ""
    return render(
        "result/turns.html.jinja",
        earlier=[
            (turn.prompt.text, *_came_of([run.trace for run in turn.runs])) for turn in earlier
        ],
        question=configs[0].prompt.text,
        same=len({config.prompt.history for config in configs}) == 1,
        later=later,
    )


def _came_of(traces: Sequence[Trace]) -> tuple[list[tuple[str, str, str]], str]:
    """Return label, text and what is missing of every answer; and what came of them in words."""
    labels = lane_labels([trace.config for trace in traces])
    runs = list(zip(labels, traces, strict=True))
    ended = all(trace.status is Status.COMPLETED for trace in traces)
    says = verdict(traces) if ended else broken_sentence(runs)
    return [(label, trace.text, _missing(trace)) for label, trace in runs], plain(says)


def _missing(trace: Trace) -> str:
    if trace.status is Status.FAILED:
        return f"failed: {trace.error}"
    tokens = plural(trace.summary.new_tokens, "token")
    return f"stopped after {tokens}" if trace.status is Status.CANCELLED else ""
