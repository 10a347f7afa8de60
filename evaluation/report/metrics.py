"""How a metric of a study and a column of its tables are declared: once, as the default of a field.

``evaluation.report.measuring.lanes`` computes a metric for every lane and group; tables, charts and
CSV files take name, title and format from here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Literal, NamedTuple, TypeVar

from display.blocks import Head
from display.format import number
from evaluation.statistics import Interval

Other = Literal["", "strict", "none"]  # the lane that a number is compared with
Write = Callable[[Any], str]
T = TypeVar("T")


class Pooled(NamedTuple):
    """Σ ``top`` / Σ ``bottom`` of the runs, or of one run where there is no ``bottom``. Both are
    numbers of ``evaluation.report.measuring.grid.Grid``.

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
    where more is better, −1 where less is, else 0. ``table``: speed, costs, or likeness to strict's
    texts.

    ``group``: the heading over adjacent columns. ``panel``: the title of its axis in charts; empty
    for a metric that is not drawn. ``shift``: a TV, which can be an upper bound.
    """

    title: str
    help: str
    average: Pooled | Mean | ShareOfRuns | Quartiles
    write: Write = number
    better: int = 1
    group: str = ""
    panel: str = ""
    shift: bool = False
    table: Literal["speed", "costs", "likeness"] = "speed"

    @property
    def head(self) -> Head:
        direction = {1: "; more is better", -1: "; less is better"}.get(self.better, "")
        return Head(self.title, self.help + direction, self.group)


class ReportColumn(NamedTuple):
    """A column of a table of rows."""

    head: Head
    write: Write


def metric(*values: Any, **more: Any) -> Any:
    """Declare a field of a dataclass as a metric: an interval, blank by default."""
    return field(default=Interval(), metadata={ReportMetric: ReportMetric(*values, **more)})


def column(
    title: str, write: Write = number, help: str = "", group: str = "", default: Any = MISSING
) -> Any:
    """Declare a field of a dataclass as a column of its table."""
    metadata = {ReportColumn: ReportColumn(Head(title, help, group), write)}
    return field(default=default, metadata=metadata)


def declared(kind: type[Any], what: type[T]) -> dict[str, T]:
    """Return the metrics or columns of a dataclass by field, in its order."""
    return {each.name: each.metadata[what] for each in fields(kind) if what in each.metadata}
