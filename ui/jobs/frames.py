"""What a comparison under way gives the page: frames. Plain values; knows no component and computes nothing."""

from __future__ import annotations

from dataclasses import dataclass

from mars_core.models import PairSpec
from ui.kit.components import Strip
from ui.result.details import Details
from ui.result.token_view import LaneView


@dataclass(frozen=True, slots=True)
class Shown:
    """Which comparison the lanes show: its id, its pair, and by column the lane as saved (None: nothing was run there)."""

    comparison: str
    pair: PairSpec
    lanes: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Frame:
    """What changes on the page: the strip, lanes by column (None: as it was), the details once a comparison ended, and ``shown``
    with the frame that opens one."""

    strip: Strip | None = None
    lanes: tuple[LaneView | None, ...] = ()
    details: Details | None = None
    shown: Shown | None = None


def lane_frame(strip: Strip | None, lane: int, view: LaneView, lanes: int) -> Frame:
    """A frame that changes one lane."""
    return Frame(strip, tuple(view if column == lane else None for column in range(lanes)))
