"""What a document is made of: sections of paragraphs, lists, tables, charts and prompts with their texts. Values only.

All texts are plain: the templates, and the scripts of the page, make sure that nothing in them becomes markup.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple


class Cell(NamedTuple):
    """``small`` stands under the text: an interval, an amount. ``mark``: bad, good, open or nothing."""

    text: str
    small: str = ""
    mark: str = ""
    help: str = ""


class Head(NamedTuple):
    """Neighbours of one ``group`` stand under its name."""

    text: str
    help: str = ""
    group: str = ""


@dataclass(frozen=True, slots=True)
class Paragraph:
    """``kind``: plain, note, code, prompt, bad, good or open."""

    text: str
    kind: str = "plain"


@dataclass(frozen=True, slots=True)
class Listing:
    """``kind``: plain, warnings, verdicts or facts."""

    items: tuple[str, ...]
    kind: str = "plain"


@dataclass(frozen=True, slots=True)
class Table:
    """The first cell of a row is its name. ``label`` says what the table shows."""

    label: str
    heads: tuple[Head, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""

    @property
    def groups(self) -> tuple[tuple[str, int], ...]:
        """Neighbouring columns of one group: its name and how many they are; empty where no column has a group."""
        if not any(head.group for head in self.heads):
            return ()
        return tuple((name, len(list(heads))) for name, heads in groupby(self.heads, key=lambda head: head.group))


class Path(NamedTuple):
    """A line of a drawing. ``d``: SVG path data, in pixels."""

    d: str
    colour: str
    width: float = 1
    opacity: float = 1
    dashed: bool = False


class Look(NamedTuple):
    """``shape``: circle, square, diamond or triangle."""

    colour: str
    shape: str = "circle"
    hollow: bool = False


class Mark(NamedTuple):
    """``title`` is shown by a browser that points at the mark."""

    look: Look
    x: float
    y: float
    title: str = ""


class Label(NamedTuple):
    """``anchor``: start, middle or end."""

    x: float
    y: float
    text: str
    anchor: str = "middle"
    bold: bool = False


@dataclass(frozen=True, slots=True)
class Drawing:
    """A chart in pixels, drawn in this order: paths, marks, labels. ``title`` is for who cannot see it."""

    title: str
    width: int
    height: int
    paths: tuple[Path, ...]
    marks: tuple[Mark, ...]
    labels: tuple[Label, ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """``name`` names its file; ``text`` stands under it."""

    name: str
    drawing: Drawing
    text: str


class Side(NamedTuple):
    """One of two texts: ``text[:at]`` stands in both."""

    title: str
    text: str
    at: int


@dataclass(frozen=True, slots=True)
class Opened:
    """One prompt with both texts, to be unfolded. ``note`` says why there are no texts."""

    title: str
    facts: str
    prompt: str
    reference: str
    sides: tuple[Side, ...] = ()
    note: str = ""


Block = Paragraph | Listing | Table | Picture | Opened


@dataclass(frozen=True, slots=True)
class Section:
    """``name`` is unique in its document, of letters only."""

    name: str
    title: str
    blocks: tuple[Block, ...]
    lead: str = ""


@dataclass(frozen=True, slots=True)
class Document:
    """``facts`` stand under the title."""

    title: str
    facts: tuple[str, ...]
    sections: tuple[Section, ...] = ()

    @property
    def pictures(self) -> tuple[Picture, ...]:
        return tuple(block for section in self.sections for block in section.blocks if isinstance(block, Picture))
