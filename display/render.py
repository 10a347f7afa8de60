"""A document as HTML and Markdown, by the templates of this folder. Models, prompts and file names
are untrusted: the templates escape everything except SafeMarkdown."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from display.blocks import Picture, ReportDocument, ReportTable
from display.figure import figure_json, file_script, library
from display.format import displayable
from display.palette import css_variables
from display.plot import Plot
from display.sources import source, to_json

POLICY = (
    "default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data: blob:; "
    "connect-src data: blob:; base-uri 'none'; form-action 'none'"
)
SHEETS = ("figures.css", "report.css")  # the look of documents, on the page too
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
# An underscore between letters or digits is no markup, so that names and JSON can be copied.
_SPECIAL = re.compile(
    r"[&<>]|[\\`*\[|~$]|(?<![^\W_])_|_(?![^\W_])|:(?=//)|(?<=www)\.|@",
)
# Markup only at the start of a line.
_FIRST = re.compile(r"^([-+](?=\s|$)|[-=]+(?=\s*$)|#{1,6}(?=\s|$)|\d{1,9}(?=[.)](?:\s|$)))")


class SafeMarkdown(str):
    """Trusted Markdown, not to be escaped."""


def html(document: ReportDocument) -> str:
    """Write the file: it fetches nothing, is light or dark, and draws its figures by Plotly, which it
    carries where there are any. Its text fits into any UTF-8 file."""
    blocks = [block for section in document.sections for block in section.blocks]
    own = scripted(figures=any(isinstance(block, Picture) for block in blocks))
    style = css_variables() + colours() + "".join(map(sheet, ("page.css", *SHEETS)))
    page = pages().get_template("report.html.jinja")
    return page.render(document=document, title=document.title, style=style, **own)


def scripted(
    *, figures: bool, functions: Sequence[str] = (), values: object = ()
) -> dict[str, object]:
    """Return what base.html.jinja needs of a file that draws itself: its scripts, of which the policy
    allows only these by their hashes, and the values that they draw. ``figures``: whether Plotly is
    among them; ``functions``: see ``file_script``."""
    scripts = [*([library()] if figures else []), file_script(functions)]
    hashes = (b64encode(sha256(script.encode()).digest()).decode() for script in scripts)
    return {
        "policy": POLICY.format(scripts=" ".join(f"'sha256-{each}'" for each in hashes)),
        "scripts": list(map(Markup, scripts)),
        "values": Markup(to_json(values)),
    }


def colours() -> str:
    """Return the colours of the page as CSS variables, light and dark."""
    pairs = {
        name.replace("_", "-"): pair
        for name, pair in json.loads(source("assets/theme.json"))["colours"].items()
    }
    return "".join(
        f"{where}{{{''.join(f'--{name}:{pair[side]};' for name, pair in pairs.items())}}}\n"
        for side, where in enumerate((":root", ".dark"))
    )


def markdown(document: ReportDocument, beside: str = "") -> str:
    """Write the document (GitHub's Markdown). ``beside``: the file that has its figures, by its path
    relative to this one; they are left out without one."""
    shown = document if beside else document.words
    return _markdown().get_template("report.md.jinja").render(document=shown, beside=beside)


def sheet(name: str) -> str:
    """Return a style sheet of the templates."""
    return source(f"templates/{name}")


@cache
def pages(*packages: tuple[str, str]) -> Environment:
    """Templates of HTML, autoescaped, without controls and without what turns the direction of
    text. ``packages``: package and folder of further templates, which may extend and import those
    of this folder."""
    return _environment(*packages, autoescape=True, finalize=_finalized)


@cache
def _markdown() -> Environment:
    """Return the same for Markdown: everything that is written is escaped by ``finalize``."""
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
    environment.filters |= {
        "block": lambda block: type(block).__name__.lower().removeprefix("report"),
        "figure": _value,
    }
    return environment


def _value(plot: Plot) -> Markup:
    """Escape for an attribute in single quotes."""
    return Markup(figure_json(plot))


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
    """Write the line under the heads of a Markdown table: columns with a number stand at the
    right."""
    columns = zip(*table.rows, strict=True) if table.rows else [()] * len(table.heads)
    numeric = (any(re.match(r"[−+<–]?\s*\d", cell.text) for cell in column) for column in columns)
    return SafeMarkdown("|" + "|".join("---:" if right else "---" for right in numeric) + "|")
