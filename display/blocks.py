"""The blocks of a document: sections of paragraphs, lists, tables, charts and prompts with their
texts.

All texts are plain: the templates and the scripts of the page escape them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple


class TableCell(NamedTuple):
    """``small`` stands under the text: an interval, an amount. ``mark``: bad, good, open or
    empty."""

    text: str
    small: str = ""
    mark: str = ""
    help: str = ""


class Head(NamedTuple):
    """Adjacent columns with the same ``group`` share a group heading."""

    text: str
    help: str = ""
    group: str = ""


@dataclass(frozen=True, slots=True)
class Paragraph:
    """``kind``: plain, note, code, prompt, bad, good or open."""

    text: str
    kind: str = "plain"


@dataclass(frozen=True, slots=True)
class Bullets:
    """``kind``: plain, warnings, verdicts or facts."""

    items: tuple[str, ...]
    kind: str = "plain"


@dataclass(frozen=True, slots=True)
class ReportTable:
    """The first cell of a row is its name. ``label`` describes the table."""

    label: str
    heads: tuple[Head, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    note: str = ""

    @property
    def groups(self) -> tuple[tuple[str, int], ...]:
        """Name and number of columns of each run of adjacent columns with the same group; empty if
        no column has a group."""
        if not any(head.group for head in self.heads):
            return ()
        return tuple(
            (name, len(list(heads)))
            for name, heads in groupby(self.heads, key=lambda head: head.group)
        )


class Look(NamedTuple):
    """``shape``: circle, square, diamond or triangle."""

    colour: str
    shape: str = "circle"
    hollow: bool = False


class Mark(NamedTuple):
    """A point in pixels with its name. ``bars``: SVG path data of its intervals."""

    look: Look
    x: float
    y: float
    text: str
    bars: str = ""


class Axis(NamedTuple):
    """Values from ``low`` to ``high`` on pixels from ``start`` to ``end``. ``ticks``: pixels with
    their texts."""

    name: str
    low: float
    high: float
    start: float
    end: float
    ticks: tuple[tuple[float, str], ...] = ()

    def at(self, value: float) -> float:
        """In pixels."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


class Panel(NamedTuple):
    """One pair of axes, from ``left`` to ``right``. ``lines``: marks that are joined by a line."""

    left: float
    right: float
    x: Axis
    y: Axis
    series: tuple[tuple[Mark, ...], ...] = ()
    lines: tuple[tuple[Mark, ...], ...] = ()
    # a line across at a value of the axis x or y: axis, pixel, label
    level: tuple[str, float, str] = ("", 0, "")


class Drawing(NamedTuple):
    """A chart in pixels; ``legend``: marks without intervals."""

    title: str
    width: int
    height: int
    panels: tuple[Panel, ...]
    legend: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """``name``: file name; ``text``: caption."""

    name: str
    drawing: Drawing
    text: str


class Side(NamedTuple):
    """One of two texts: ``text[:at]`` is in both."""

    title: str
    text: str
    at: int


@dataclass(frozen=True, slots=True)
class Opened:
    """One prompt with both texts, as a collapsible block. ``note``: why there are no texts."""

    title: str
    facts: str
    prompt: str
    reference: str
    sides: tuple[Side, ...] = ()
    note: str = ""


Block = Paragraph | Bullets | ReportTable | Picture | Opened


@dataclass(frozen=True, slots=True)
class Section:
    """``name`` is unique in its document, of letters only."""

    name: str
    title: str
    blocks: tuple[Block, ...]
    lead: str = ""


@dataclass(frozen=True, slots=True)
class ReportDocument:
    """``facts`` stand under the title."""

    title: str
    facts: tuple[str, ...]
    sections: tuple[Section, ...] = ()

    @property
    def pictures(self) -> tuple[Picture, ...]:
        return tuple(
            block
            for section in self.sections
            for block in section.blocks
            if isinstance(block, Picture)
        )
