"""Two runs of one prompt, side by side as token views, where another view requests them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mars_core.types import Trace
from ui.kit.events import Updates
from ui.result.sentence import divergence, divergence_text
from ui.result.view import LaneCards
from ui.token_view.view import LaneView, ended_view


def pair_views(runs: Sequence[Trace], name: str) -> tuple[LaneView, LaneView]:
    """Two runs, framed where they first differ; the second one says why. ``name`` tells this pair
    from others."""
    left, right = runs
    difference = divergence(left, right)
    position = difference.position if difference else None
    first = ended_view(left, f"{name}/0", diverges=position)
    why = divergence_text(left, right)
    note = f"First difference, position {position}: {why}" if difference else ""
    return first, ended_view(right, f"{name}/1", diverges=position, note=note)


class RunPair(LaneCards):
    """Hidden until there are views to show."""

    def __init__(self, scope: str) -> None:
        super().__init__(scope, [LaneView("")] * 2, 0)
        self.outputs: list[Any] = [*self.cards, *self.lanes]

    def show(self, views: Sequence[LaneView]) -> Updates:
        """``views``: both, or none."""
        lanes = {lane: view.json() for lane, view in zip(self.lanes, views, strict=False)}
        return self.show_lanes(len(views)) | lanes
