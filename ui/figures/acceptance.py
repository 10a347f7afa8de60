"""Acceptance by depth of the draft: in how many of the steps that drafted that deep a token was kept there. No gradio, no store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import plotly.graph_objects as go

from mars_core.types import Outcome, Trace
from ui.figures.plot import Data, Plot
from ui.figures.style import axis, drawn
from ui.kit.labels import lane_label
from ui.kit.palette import LANES, OUTCOME_STYLES


@dataclass(frozen=True, slots=True)
class AcceptanceData:
    """Share of steps that kept a token at each depth of the draft: ``accepted`` as by strict, ``relaxed`` by forgiveness.

    ``offered``: how many steps drafted that deep.
    """

    label: str
    accepted: tuple[float, ...]
    relaxed: tuple[float, ...]
    offered: tuple[int, ...]
    lane: int = 0


def acceptance_data(trace: Trace, lane: int = 0, label: str = "") -> AcceptanceData:
    """Steps that kept a token at depth i / steps that drafted one there, split by why it was kept."""
    offered = Counter(depth for step in trace.steps for depth in {node.depth for node in step.nodes})
    kept = Counter((token.outcome, token.draft_position) for token in trace.tokens)
    places = range(1, max(offered, default=0) + 1)
    return AcceptanceData(
        label or lane_label(trace.config),
        tuple(kept[Outcome.ACCEPTED, place] / offered[place] for place in places),
        tuple(kept[Outcome.RELAXED, place] / offered[place] for place in places),
        tuple(offered[place] for place in places),
        lane,
    )


def acceptance_plot(lanes: Sequence[AcceptanceData]) -> Plot:
    rows = tuple(
        (lane.lane + 1, lane.label, place, offered, accepted, relaxed)
        for lane in lanes
        for place, (offered, accepted, relaxed) in enumerate(
            zip(lane.offered, lane.accepted, lane.relaxed, strict=True), start=1
        )
    )
    data = Data(("lane", "rule", "depth", "steps", "accepted_share", "relaxed_share"), rows)
    return Plot(acceptance_figure(lanes), data, "Share of steps that kept a token, by depth in the draft")


def acceptance_figure(lanes: Sequence[AcceptanceData]) -> go.Figure:
    """Bars per depth of the draft, the runs side by side; the forgiven part stacked and hatched."""
    bars = [bar for index, lane in enumerate(lanes) for bar in _bars(lane, index)]
    return drawn(
        bars,
        height=360,
        barmode="group",
        bargap=0.35,
        bargroupgap=0.08,
        xaxis=axis(title={"text": "depth in the draft"}, showgrid=False, type="category"),
        yaxis=axis(title={"text": "kept"}, tickformat=".0%", range=[0, 1.02]),
    )


_HATCHED = {"shape": "/", "fillmode": "overlay", "fgcolor": "#FFFFFF", "fgopacity": 0.55, "size": 7, "solidity": 0.2}


def _bars(lane: AcceptanceData, index: int) -> list[dict[str, Any]]:
    name = escape(lane.label)
    common = {
        "type": "bar", "x": [str(place) for place in range(1, len(lane.offered) + 1)], "offsetgroup": str(index),
        "customdata": list(lane.offered),
    }  # fmt: skip
    bars = [
        common
        | {"y": list(lane.accepted), "name": f"{name}: accepted", "marker": {"color": LANES[lane.lane % len(LANES)]}}
        | {"hovertemplate": f"{name}<br>accepted %{{y:.1%}} of %{{customdata}} steps<extra></extra>"}
    ]
    if any(lane.relaxed):
        marker = {"color": OUTCOME_STYLES[Outcome.RELAXED].light, "pattern": _HATCHED}
        bars.append(
            common
            | {"y": list(lane.relaxed), "base": list(lane.accepted), "name": f"{name}: relaxed", "marker": marker}
            | {"hovertemplate": f"{name}<br>relaxed %{{y:.1%}} of %{{customdata}} steps<extra></extra>"}
        )
    return bars
