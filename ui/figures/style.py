"""What all figures share: fonts, ground, captions, and text that cannot become markup. No gradio, no trace.

A figure is drawn in the colours of the light page; the page puts those of the theme in their place (``THEMED``) and sets captions,
grid and ground itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from types import MappingProxyType
from typing import Any

import plotly.graph_objects as go

from evaluation.format import visible
from ui.kit.palette import GRID, NEUTRAL, OUTCOME_STYLES

INK = "#15171C"  # marks on coloured cells: the same in both themes
TEXT = "#1B1E24"  # labels on the ground
FAINT = "#A9AEB8"  # opaque lines that may lie on each other
PLAIN: Mapping[str, int] = MappingProxyType({"l": 52, "r": 14, "t": 8, "b": 44})  # margin of a figure without a legend
THEMED: Mapping[str, str] = MappingProxyType(
    {NEUTRAL: "--body-text-color-subdued", GRID: "--border-color-primary"}
    | {TEXT: "--body-text-color", FAINT: "--border-color-accent"}
    | {style.light: f"--mars-{outcome}" for outcome, style in OUTCOME_STYLES.items()}
)  # colour of a figure → the variable of the page that stands in for it; both light and dark


def drawn(traces: Sequence[Mapping[str, Any]], *, height: int, **layout: Any) -> go.Figure:
    """A figure of traces as plain mappings, over the layout that all share.

    Not validated: that costs twenty times the rest. Tests validate every figure.
    """
    whole = {
        "height": height,
        "margin": {"l": 52, "r": 14, "t": 34, "b": 44},
        "font": {"color": NEUTRAL, "size": 12},
        "legend": {"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom", "itemclick": False, "itemdoubleclick": False},
        "hoverlabel": {"align": "left"},
        "template": {},
    }  # fmt: skip
    return go.Figure(data=list(traces), layout=whole | layout, _validate=False)


def axis(**more: Any) -> dict[str, Any]:
    """An axis that is not dragged, with a faint grid."""
    title = {"font": {"size": 12}, "standoff": 8} | more.pop("title", {})
    lines = {"gridcolor": GRID, "zerolinecolor": GRID, "linecolor": GRID, "tickcolor": GRID}
    return {"fixedrange": True, "automargin": True, "title": title, **lines} | more


def plotly_text(piece: str) -> str:
    """Plotly reads a subset of HTML in its texts: nothing of a piece may be markup, or a ``%{`` of a template."""
    return escape(visible(piece)).replace("%{", "% {")


def rows_layout(rows: int, row_px: int, *, x: Mapping[str, Any], y: Mapping[str, Any], title: str) -> dict[str, Any]:
    """Axes of ``rows`` rows under each other on one x axis: ``y``, ``y2`` … from above, each with room for its caption."""
    gap = 24 / (row_px * rows)  # as a share of the height; the caption stands in it
    height = (1 - gap * rows) / rows
    axes: dict[str, Any] = {"xaxis": axis(**x, anchor=name(rows, "y"), title={"text": title})}
    for row in range(1, rows + 1):
        top = 1 - (row - 1) * (height + gap) - gap
        axes[name(row, "yaxis")] = axis(**y, domain=[max(0.0, top - height), top], anchor="x")
    return axes


def name(row: int, kind: str) -> str:
    """Plotly's name of an axis: ``y``, ``y2`` …"""
    return kind if row == 1 else f"{kind}{row}"


def caption(text: str, row: int) -> dict[str, Any]:
    """The name of a row at its upper left."""
    return {
        "text": escape(text), "showarrow": False, "x": 0, "y": 1, "xref": "x domain", "yref": f"{name(row, 'y')} domain",
        "xanchor": "left", "yanchor": "bottom",
    }  # fmt: skip
