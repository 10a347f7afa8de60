"""A document as Markdown (GitHub's). Nothing in a text becomes markup: models and prompts are hostile. Knows no study."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from evaluation.format import displayable
from evaluation.report.form.blocks import (
    Block,
    Cell,
    Document,
    Head,
    Listing,
    Opened,
    Paragraph,
    Picture,
    Section,
    Side,
    Table,
)

_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_SPECIAL = re.compile(r"[&<>]|[\\`*_\[|~$]|:(?=//)|(?<=www)\.|@")
_FIRST = re.compile(
    r"^([-+](?=\s|$)|[-=]+(?=\s*$)|#{1,6}(?=\s|$)|\d{1,9}(?=[.)](?:\s|$)))"
)  # markup only where a line begins
_STRONG = ("bad", "good", "open")


def markdown(document: Document, beside: str = "") -> str:
    """The whole document. ``beside``: what the names of its pictures begin with, as a path relative to the file."""
    parts = [
        f"# {escaped(document.title)}",
        *(escaped(fact) + "  " for fact in document.facts[:-1]),
        *map(escaped, document.facts[-1:]),
    ]
    head = parts[0] + "\n\n" + "\n".join(parts[1:])
    return "\n\n".join([head, *(text for section in document.sections for text in _section(section, beside))]) + "\n"


def escaped(text: str) -> str:
    """``text`` on one line as nothing but text."""
    line = " ".join(displayable(text).split())
    line = _SPECIAL.sub(lambda match: _ENTITIES.get(match[0], f"\\{match[0]}"), line)
    return _FIRST.sub(lambda match: f"{match[1]}\\" if match[1].isdigit() else f"\\{match[1]}", line)


def fenced(text: str) -> str:
    """``text`` as it is, in a fence that nothing in it can end."""
    shown = displayable(text)
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{shown}\n{fence}"


def _section(section: Section, beside: str) -> Iterator[str]:
    yield f"## {escaped(section.title)}"
    if section.lead:
        yield escaped(section.lead)
    for block in section.blocks:
        yield from _block(block, beside)


def _block(block: Block, beside: str) -> Iterator[str]:
    match block:
        case Paragraph(text, "code"):
            yield fenced(text)
        case Paragraph(text, kind):
            yield f"**{escaped(text)}**" if kind in _STRONG else escaped(text)
        case Listing(items):
            yield "\n".join(f"- {escaped(item)}" for item in items)
        case Table():
            yield from _table(block)
        case Picture(name, _, text):
            yield f"![{escaped(text)}](<{beside}{name}.svg>)"
        case Opened():
            yield from _opened(block)


def _table(table: Table) -> Iterator[str]:
    yield f"**{escaped(table.label)}**"
    lines = [
        _line(map(_head, table.heads)),
        "|" + "|".join("---" if column in _texts(table) else "---:" for column in range(len(table.heads))) + "|",
    ]
    yield "\n".join([*lines, *(_line(map(_cell, row)) for row in table.rows)])
    if table.note:
        yield escaped(table.note)


def _texts(table: Table) -> set[int]:
    """Columns of names: those before the first cell that begins with a digit, and of words."""
    return {column for column in range(len(table.heads)) if all(not _number(row[column].text) for row in table.rows)}


def _number(text: str) -> bool:
    return bool(re.match(r"[−+<–]?\s*\d", text))


def _line(cells: object) -> str:
    assert hasattr(cells, "__iter__")
    return "| " + " | ".join(cells) + " |"


def _head(head: Head) -> str:
    return escaped(f"{head.group}: {head.text}" if head.group else head.text)


def _cell(cell: Cell) -> str:
    text = escaped(cell.text)
    strong = f"**{text}**" if cell.mark in _STRONG and text else text
    return f"{strong} {escaped(cell.small)}" if cell.small else strong


def _opened(block: Opened) -> Iterator[str]:
    yield f"### {escaped(block.title)}"
    yield escaped(block.facts)
    yield fenced(block.prompt)
    if block.reference:
        yield f"Reference: {escaped(block.reference)}"
    if block.note:
        yield escaped(block.note)
    yield from _sides(block.sides)


def _sides(sides: Sequence[Side]) -> Iterator[str]:
    for title, text, at in sides:
        yield f"{escaped(title)}, after {at:,} characters that both have (⟪ marks the place):"
        yield fenced(f"{text[:at]}⟪{text[at:]}")
