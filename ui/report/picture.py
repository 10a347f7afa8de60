"""A comparison as the values from which assets/panel/picture.js draws one picture."""

from __future__ import annotations

import math

from display.format import count, displayable, number, plural
from display.sources import to_json
from mars_core.types import UNKNOWN, Outcome, Trace
from storage import StoredComparison
from ui.kit.labels import lane_labels, settings_line
from ui.kit.values import plain
from ui.result.result import reopened
from ui.settings.stored import few, richest
from ui.settings.values import MOST_LANES


def picture_json(comparison: StoredComparison) -> str:
    """ASCII JSON without ``<``; all texts are displayable. ``pieces``: of the text, each with
    whether it was relaxed."""
    stored = few(comparison, ())
    traces, config = [run.trace for run in stored.runs], richest(stored)
    titles = lane_labels([trace.config for trace in traces])
    return to_json(
        {
            "id": stored.id,
            "prompt": displayable(stored.prompt.text),
            "models": settings_line(config) if config else "",
            "sentence": plain(reopened(stored).strip.parts),
            "lanes": [
                {"title": title, "numbers": _numbers(trace), "pieces": _pieces(trace)}
                for title, trace in zip(titles, traces[:MOST_LANES], strict=True)
            ],
        }
    )


def _pieces(trace: Trace) -> list[tuple[str, bool]]:
    """Return the text; of a run without tokens, as some servers report it, in one piece."""
    given = trace.text[: trace.tokens[0].start] if trace.tokens else trace.text
    tokens = [
        (trace.text[token.start : token.end], token.outcome is Outcome.RELAXED)
        for token in trace.tokens
    ]
    return [(displayable(text), relaxed) for text, relaxed in [(given, False), *tokens] if text]


def _numbers(trace: Trace) -> str:
    """Return those that repeat exactly; what is not known is left out."""
    summary = trace.summary
    counts = (
        (summary.steps, plural(summary.steps, "target pass")),
        (summary.relaxed, f"{count(summary.relaxed)} relaxed"),
    )
    return " · ".join(
        [
            plural(summary.new_tokens, "token"),
            *(text for value, text in counts if value != UNKNOWN),
            *([] if math.isnan(summary.tau) else [f"{number(summary.tau)} tokens per pass"]),
        ]
    )
