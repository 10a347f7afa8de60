"""How a metric of a study is declared: once, as the default of a field of
``evaluation.report.values.Measured``.

``evaluation.report.measuring.lanes`` computes it for every lane and group; tables, charts and CSV
files take name, title and format from here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from display.format import number
from evaluation.statistics import Interval

Other = Literal["", "strict", "none"]  # the lane that a number is compared with


class Pooled(NamedTuple):
    """Σ ``top`` / Σ ``bottom`` of the runs, or of one run where there is no ``bottom``. Both are
    fields of ``Result`` or of ``evaluation.report.measuring.grid.DERIVED``.

    ``over``: divided by the same number of that lane; ``minus``: that number subtracted instead.
    ``known``: without the runs of which one of them is unknown, in these lanes or strict.
    """

    top: str
    bottom: str = ""
    over: Other = ""
    minus: bool = False
    known: bool = False


class Mean(NamedTuple):
    """The mean over runs of ``top`` / ``bottom`` of a run, divided by that of the same task in the
    lane ``over``. Fields as those of ``Pooled``, or of ``Relative``."""

    top: str
    bottom: str = ""
    over: Other = ""


class ShareOfRuns(NamedTuple):
    """The share of runs in which a field is true; Wilson's interval."""

    field: str


class Quartiles(NamedTuple):
    """Median and quartiles of a field over the runs that have it."""

    field: str


@dataclass(frozen=True, slots=True)
class ReportMetric:
    """``average``: how it is read off the runs. ``write``: its format, with the unit. ``better``: 1
    where more is better, −1 where less is, else 0.

    ``group``: the heading over adjacent columns. ``panel``: the title of its axis in charts; empty
    for a metric that is not drawn. ``shift``: a TV, which can be an upper bound.
    """

    title: str
    help: str
    average: Pooled | Mean | ShareOfRuns | Quartiles
    write: Callable[[float], str] = number
    better: int = 1
    group: str = ""
    panel: str = ""
    shift: bool = False
    likeness: bool = False  # it compares the texts with strict's; the others are about speed
    meter: bool = False  # it is in the first table

    @property
    def field(self) -> Any:
        """A field of a dataclass: an interval, blank by default."""
        return field(default=Interval(), metadata={"metric": self})
