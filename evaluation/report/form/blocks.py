"""What every form of a report is made of: sections of paragraphs, tables, pictures and opened texts. Values only; knows no study.

All texts are plain: whoever writes them as HTML, Markdown or on the page makes sure that nothing in them is markup.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Cell(NamedTuple):
    """``small`` stands under the text: an interval, an amount. ``mark``: bad, good, open or nothing."""

    text: str
    small: str = ""
    mark: str = ""


class Head(NamedTuple):
    """Neighbours of one ``group`` stand under its name."""

    text: str
    help: str = ""
    group: str = ""


@dataclass(frozen=True, slots=True)
class Paragraph:
    """``kind``: plain, note, code, bad, good or open."""

    text: str
    kind: str = "plain"


@dataclass(frozen=True, slots=True)
class Listing:
    """Sentences under each other."""

    items: tuple[str, ...]
    kind: str = "plain"


@dataclass(frozen=True, slots=True)
class Table:
    """The first cell of a row is its name. ``label`` says what the table shows."""

    label: str
    heads: tuple[Head, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """An SVG of ours. ``text`` says what is to be seen, also to who cannot see it; ``name`` names its file."""

    name: str
    svg: str
    text: str


class Side(NamedTuple):
    """One of two texts: ``text[:at]`` stands in both."""

    title: str
    text: str
    at: int


@dataclass(frozen=True, slots=True)
class Opened:
    """One prompt with both texts, to be opened. ``note`` says why there are no texts."""

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
    sections: tuple[Section, ...] = field(default=())
