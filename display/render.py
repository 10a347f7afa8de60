"""A document as HTML, Markdown and SVG: the templates of this folder. Models, prompts and file
names are untrusted: the templates escape everything except SafeMarkdown."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from display.blocks import Drawing, ReportDocument, ReportTable
from display.format import displayable

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_SPECIAL = re.compile(r"[&<>]|[\\`*_\[|~$]|:(?=//)|(?<=www)\.|@")
# Markup only at the start of a line.
_FIRST = re.compile(r"^([-+](?=\s|$)|[-=]+(?=\s*$)|#{1,6}(?=\s|$)|\d{1,9}(?=[.)](?:\s|$)))")


class SafeMarkdown(str):
    """Trusted Markdown, not to be escaped."""


def html(document: ReportDocument) -> str:
    """The file: no script, nothing fetched, light and dark; text that any UTF-8 file can
    hold."""
    style = sheet("page.css") + sheet("report.css")
    page = pages().get_template("report.html.jinja")
    return page.render(document=document, title=document.title, policy=POLICY, style=style)


def svg(drawing: Drawing) -> str:
    return pages().get_template("drawing.html.jinja").render(drawing=drawing)


def markdown(document: ReportDocument, beside: str = "") -> str:
    """The document (GitHub's Markdown). ``beside``: what the names of its pictures begin
    with, as a path relative to the file."""
    return _markdown().get_template("report.md.jinja").render(document=document, beside=beside)


def sheet(name: str) -> str:
    """A style sheet of the templates; ``report.css`` is the page's too."""
    return resources.files("display").joinpath("templates", name).read_text(encoding="utf-8")


@cache
def pages(*packages: tuple[str, str]) -> Environment:
    """Templates of HTML, autoescaped, without controls and without what turns the direction of
    text. ``packages``: package and folder of further templates, which may extend and import those
    of this folder."""
    return _environment(*packages, autoescape=True, finalize=_finalized)


@cache
def _markdown() -> Environment:
    """The same for Markdown: everything that is written is escaped by ``finalize``."""
    environment = _environment(autoescape=False, finalize=_escaped, keep_trailing_newline=True)
    environment.filters |= {"fenced": fenced, "rule": _rule}
    return environment


def _environment(*packages: tuple[str, str], **options: Any) -> Environment:
    loader = ChoiceLoader(
        [PackageLoader(*package) for package in (("display", "templates"), *packages)]
    )
    environment = Environment(
        loader=loader, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, **options
    )
    # paragraph, bullets, table, …
    environment.filters["block"] = lambda block: type(block).__name__.lower().removeprefix("report")
    return environment


def _finalized(value: object) -> object:
    return displayable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _escaped(value: object) -> object:
    return (
        escaped(value) if isinstance(value, str) and not isinstance(value, SafeMarkdown) else value
    )


def escaped(text: str) -> str:
    """``text`` on one line of Markdown as nothing but text."""
    line = " ".join(displayable(text).split())
    line = _SPECIAL.sub(lambda match: _ENTITIES.get(match[0], f"\\{match[0]}"), line)
    return _FIRST.sub(
        lambda match: f"{match[1]}\\" if match[1].isdigit() else f"\\{match[1]}", line
    )


def fenced(text: str) -> SafeMarkdown:
    """``text`` as it is, in a fence that nothing in it can end."""
    visible = displayable(text)
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", visible)), default=0))
    return SafeMarkdown(f"{fence}text\n{visible}\n{fence}")


def _rule(table: ReportTable) -> SafeMarkdown:
    """The line under the heads of a Markdown table: columns with a number stand at the right."""
    columns = zip(*table.rows, strict=True) if table.rows else [()] * len(table.heads)
    numeric = (any(re.match(r"[−+<–]?\s*\d", cell.text) for cell in column) for column in columns)
    return SafeMarkdown("|" + "|".join("---:" if right else "---" for right in numeric) + "|")
