"""What a figure is to the page: the drawing, the numbers it draws, and a title. No gradio, no store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import plotly.graph_objects as go

from mars_core.types import Trace

Value = str | float | int | None  # None and nan: an empty cell


class Run(NamedTuple):
    """A run, the lane it stands in, and a name that no other run of its comparison has."""

    trace: Trace
    lane: int
    label: str


@dataclass(frozen=True, slots=True)
class Data:
    """The numbers of a figure as its CSV has them: raw, unrounded, one head a column. Texts as they are: nothing is escaped."""

    heads: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]


@dataclass(frozen=True, slots=True)
class Plot:
    """One figure. ``title`` says in one line what is to be seen, also to who cannot see it.

    A trace whose points are tokens says so in its ``meta``: ``{"lane": 0, "position": 3}`` is the lane, and the place in every
    point's ``customdata`` that holds the output position. A click there shows the token.
    """

    figure: go.Figure
    data: Data
    title: str
