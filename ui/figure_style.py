"""What all figures share: fonts, ground, captions, and text that cannot become markup. No gradio, no trace.

Backgrounds are transparent and captions neutral, so that one figure serves the light and the dark page.
"""

from __future__ import annotations

from html import escape

import plotly.graph_objects as go

from ui.format import visible
from ui.palette import NEUTRAL

FONT = "IBM Plex Sans, ui-sans-serif, system-ui, sans-serif"
INK = "#15171C"
_NO_BUTTONS = ["zoom", "pan", "select", "lasso", "zoomIn", "zoomOut", "autoScale", "resetScale"]


def style(figure: go.Figure, *, height: int) -> None:
    """Transparent ground, neutral captions, a legend above."""
    figure.update_layout(
        template="none",
        height=height,
        margin={"l": 44, "r": 12, "t": 40, "b": 34},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": FONT, "color": NEUTRAL, "size": 12},
        legend={"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom", "itemclick": False, "itemdoubleclick": False},
        modebar={"bgcolor": "rgba(0,0,0,0)", "color": NEUTRAL, "activecolor": NEUTRAL, "remove": _NO_BUTTONS},
        hoverlabel={
            "align": "left",
            "bgcolor": "#FFFFFF",
            "bordercolor": "#C9CCD3",
            "font": {"color": INK, "family": FONT},
        },
    )


def plotly_text(piece: str) -> str:
    """Plotly reads a subset of HTML in its texts: nothing of a piece may be markup, or a ``%{`` of a template."""
    return escape(visible(piece)).replace("%{", "% {")
