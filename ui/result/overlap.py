"""Which tokens two texts of one prompt share: their beginning, and what a diff finds again after
the first difference. No gradio."""

from __future__ import annotations

from difflib import SequenceMatcher

from mars_core.types import UNKNOWN, Trace
from ui.result.sentence import output

LEAST = 3  # tokens in a row, so that a comma or an article is no match
Spans = tuple[tuple[int, int], ...]  # output positions: the first, and the one after the last


def shared_spans(left: Trace, right: Trace, position: int) -> tuple[Spans, Spans]:
    """Return what is in either text; ``position``: where they first differ."""
    ids = [
        [each.piece if each.id == UNKNOWN else each.id for each in output(trace)[position:]]
        for trace in (left, right)
    ]
    # without seeds in frequent tokens of long texts, which keeps a text that repeats itself fast
    blocks = SequenceMatcher(None, ids[0], ids[1]).get_matching_blocks()
    runs = [block for block in blocks if block.size >= LEAST]

    def spans(starts: list[int]) -> Spans:
        after = zip(starts, runs, strict=True)
        return ((0, position), *((position + at, position + at + run.size) for at, run in after))

    return spans([run.a for run in runs]), spans([run.b for run in runs])
