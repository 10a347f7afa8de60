"""The blocks of a document: sections of paragraphs, lists, tables, charts and prompts with their
texts.

All texts are plain: the templates and the scripts of the page escape them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

from display.plot import Plot


class TableCell(NamedTuple):
    """``small`` stands under the text: an interval, an amount. ``mark``: bad, good, open or
    empty. ``link``: a file to which the text leads."""

    text: str
    small: str = ""
    mark: str = ""
    help: str = ""
    link: str = ""


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


@dataclass(frozen=True, slots=True)
class Picture:
    """``name`` is unique in its document and names downloads; ``label``: what it shows in a few
    trusted words; ``width``: pixels at least, it scrolls in a narrower window; ``note``: under it."""

    name: str
    label: str
    plot: Plot
    width: int = 660
    note: str = ""


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
    def words(self) -> ReportDocument:
        """Return the document without pictures and what has nothing else, for a terminal."""
        kept = (
            (each, tuple(block for block in each.blocks if not isinstance(block, Picture)))
            for each in self.sections
        )
        sections = tuple(replace(each, blocks=blocks) for each, blocks in kept if blocks)
        return replace(self, sections=sections)
