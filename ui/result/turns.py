"""The turns of a conversation before the one that the lanes show: what was asked, what every lane
answered, and where the answers first differed. No gradio."""

from __future__ import annotations

from collections.abc import Sequence

from mars_core.types import RunConfig, Status, Trace
from storage import StoredComparison
from ui.kit.labels import lane_labels
from ui.kit.panel import render
from ui.kit.values import plain
from ui.result.sentence import broken_sentence, ending, verdict


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
    missing = ["" if each.status is Status.COMPLETED else ending(each) for each in traces]
    says = broken_sentence(runs) if any(missing) else verdict(traces)
    texts = [trace.text for trace in traces]
    return list(zip(labels, texts, missing, strict=True)), plain(says)
