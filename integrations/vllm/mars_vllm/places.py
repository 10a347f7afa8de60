"""Where in its output a text is, on the device, so that no step waits for it.

A place is the output position and whether the text is within its thinking phase (1 or 0), [2]
float64. A span is the ids that begin and end the phase, [2].
"""

from __future__ import annotations

import torch
from torch import Tensor

NO_SPAN = (-2.0, -2.0)


def follow(places: Tensor, spans: Tensor, drafted: Tensor, local: Tensor) -> Tensor:
    """Return the place of each drafted token, [P, 2]: decided by the tokens before it, also those
    of the draft.

    places and spans: [P, 2], of the text of each row before the step; drafted: int64 [P], −1 where
    a row has no token; local: [P], the rows of the same text before it.
    """
    begins, ends = (drafted == spans[:, 0]), (drafted == spans[:, 1])
    rows = torch.arange(len(drafted), device=drafted.device)
    marks = torch.where(begins | ends, rows, -1).cummax(0).values.roll(1)
    known = (marks >= rows - local) & (local > 0)  # a mark of the same text, before the row
    thinking = torch.where(known, begins[marks.clamp(min=0)].double(), places[:, 1])
    return torch.stack([places[:, 0] + local, thinking], -1)


def after(places: Tensor, spans: Tensor, emitted: Tensor, counts: Tensor) -> Tensor:
    """Return the places of texts after a step, [B, 2]. places and spans: [B, 2]; emitted:
    [B, W], of which the first ``counts`` [B] tokens of a row count."""
    width = emitted.shape[1] + 1
    local = torch.arange(width, device=emitted.device).repeat(len(emitted))
    ids = torch.nn.functional.pad(emitted.long(), (0, 1), value=-1).flatten()
    places, spans = (each.repeat_interleave(width, 0) for each in (places, spans))
    return follow(places, spans, ids, local)[local == counts.repeat_interleave(width, 0)]
