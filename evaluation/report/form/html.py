"""A document as one HTML file: no script, nothing fetched, light and dark. Every text is escaped. Knows no study."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from importlib import resources
from itertools import groupby

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

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
LONG = 24  # rows: a longer table scrolls within its place
_HEAD = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>{title}</title>
<style>{style}</style></head><body>
<fieldset class="themes"><legend>Colours</legend>
<label><input type="radio" name="theme" checked>as the system</label>
<label><input type="radio" name="theme" id="light">light</label>
<label><input type="radio" name="theme" id="dark">dark</label></fieldset>
<main>"""


def html(document: Document) -> str:
    """The whole file, as text that any UTF-8 file can hold."""
    style = sheet("page.css") + sheet("report.css")
    parts = [_HEAD.format(policy=POLICY, title=text(document.title), style=style)]
    parts.append(f"<h1>{text(document.title)}</h1>")
    parts += [f'<p class="fact">{text(fact)}</p>' for fact in document.facts]
    links = "".join(f'<a href="#{section.name}">{text(section.title)}</a>' for section in document.sections)
    parts.append(f'<nav aria-label="Sections">{links}</nav>')
    parts += [part for section in document.sections for part in _section(section)]
    return "\n".join([*parts, "</main></body></html>\n"])


def sheet(name: str) -> str:
    """A style sheet of this folder; ``report.css`` is the page's too."""
    return resources.files("evaluation").joinpath("report", "form", name).read_text(encoding="utf-8")


def text(content: str) -> str:
    """As text and nothing else: no markup, no control, nothing that turns the direction of what stands beside it."""
    return escape(displayable(content))


def section_html(section: Section) -> str:
    """One section of the file, with its title as ``h2``."""
    return "\n".join(_section(section))


def _section(section: Section) -> Iterator[str]:
    yield f'<section id="{section.name}" class="mq-section"><h2>{text(section.title)}</h2>'
    if section.lead:
        yield f'<p class="mq-lead">{text(section.lead)}</p>'
    for block in section.blocks:
        yield from _block(block)
    yield "</section>"


def _block(block: Block) -> Iterator[str]:
    match block:
        case Paragraph(words, "code"):
            yield f'<pre class="mq-code">{text(words)}</pre>'
        case Paragraph(words, kind):
            yield f'<p class="mq-{kind}">{text(words)}</p>'
        case Listing(items, kind):
            yield f'<ul class="mq-{kind}">{"".join(f"<li>{text(item)}</li>" for item in items)}</ul>'
        case Table():
            yield from _table(block)
        case Picture(_, svg, words):
            yield f'<figure class="mq-figure">{svg}<figcaption>{text(words)}</figcaption></figure>'
        case Opened():
            yield from _opened(block)


def _table(table: Table) -> Iterator[str]:
    label = text(table.label)
    name = "mq-scroll mq-long" if len(table.rows) > LONG else "mq-scroll"
    yield f'<h3>{label}</h3><div class="{name}" tabindex="0" role="region" aria-label="{label}"><table>'
    yield f"<thead>{''.join(_heads(table.heads))}</thead><tbody>"
    for row in table.rows:
        first, *rest = row
        yield f'<tr><th scope="row">{_cell(first)}</th>{"".join(f"<td{_mark(cell)}>{_cell(cell)}</td>" for cell in rest)}</tr>'
    yield "</tbody></table></div>"
    if table.note:
        yield f'<p class="mq-note">{text(table.note)}</p>'


def _heads(heads: Sequence[Head]) -> Iterator[str]:
    """One row, or two where some columns stand in groups."""
    if any(head.group for head in heads):
        yield "<tr>"
        for group, found in groupby(heads, key=lambda head: head.group):
            width = len(list(found))
            yield (
                f'<th colspan="{width}" scope="colgroup">{text(group)}</th>'
                if group
                else f'<td colspan="{width}"></td>'
            )
        yield "</tr>"
    yield "<tr>"
    for head in heads:
        yield (
            f'<th scope="col" title="{text(head.help)}">{text(head.text)}</th>'
            if head.help
            else f'<th scope="col">{text(head.text)}</th>'
        )
    yield "</tr>"


def _mark(cell: Cell) -> str:
    return f' class="mq-{cell.mark}"' if cell.mark else ""


def _cell(cell: Cell) -> str:
    return text(cell.text) + (f"<small>{text(cell.small)}</small>" if cell.small else "")


def _opened(block: Opened) -> Iterator[str]:
    yield f'<details class="mq-opened"><summary>{text(block.title)}</summary><p class="mq-lead">{text(block.facts)}</p>'
    yield f'<pre class="mq-prompt">{text(block.prompt)}</pre>'
    if block.reference:
        yield f'<p class="mq-lead">Reference</p><pre class="mq-prompt">{text(block.reference)}</pre>'
    if block.note:
        yield f'<p class="mq-note">{text(block.note)}</p>'
    if block.sides:
        yield f'<div class="mq-sides">{"".join(map(_side, block.sides))}</div>'
    yield "</details>"


def _side(side: Side) -> str:
    """What only this text has is marked, and begins at the mark."""
    same, rest = text(side.text[: side.at]), text(side.text[side.at :])
    mark = f"<mark>{rest}</mark>" if rest else '<mark class="mq-end">ends here</mark>'
    return f'<figure class="mq-side"><figcaption>{text(side.title)}</figcaption><pre><span>{same}</span>{mark}</pre></figure>'
