"""Two runs of one prompt, side by side as token views, where another view asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gradio as gr

from mars_core.types import Trace
from ui.kit.events import Updates
from ui.result.sentence import divergence, divergence_text
from ui.result.view import card_classes, show_columns
from ui.token_view.view import LaneView, ended_view, lane_component


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


class RunPair:
    """The components, hidden until there are views to show."""

    def __init__(self, scope: str) -> None:
        self.cards: list[gr.Column] = []
        self.lanes: list[gr.HTML] = []
        with gr.Row(equal_height=False, elem_classes=["mars-lanes"]):
            for lane in range(2):
                with gr.Column(elem_classes=card_classes(lane, 0), min_width=300) as card:
                    self.lanes.append(lane_component(LaneView(title=""), scope=scope, lane=lane))
                self.cards.append(card)
        self.outputs: list[Any] = [*self.cards, *self.lanes]

    def show(self, views: Sequence[LaneView]) -> Updates:
        """``views``: both, or none."""
        lanes = {lane: view.json() for lane, view in zip(self.lanes, views, strict=False)}
        return show_columns(self.cards, len(views)) | lanes
