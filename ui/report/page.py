"""A comparison as one HTML file that needs nothing else: no request, readable offline, light and dark.

It is made of the page's own components: each is a constant template, a constant script and values. All values are in one block of ASCII
JSON without ``<``, which the scripts write with textContent; the only scripts that may run are those whose hashes the file names.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from html import escape
from typing import Any

from storage import StoredComparison
from ui.kit.assets import asset, to_json
from ui.kit.components import strip_component
from ui.kit.figure import LIBRARY
from ui.kit.format import displayable
from ui.kit.labels import run_names
from ui.kit.values import Cell, Table
from ui.report.look import report_css
from ui.report.parts import END, SCOPE, Part, Placed, figure_parts, lane_parts, number_parts, panel, table, text
from ui.result.reopened import reopened, title_of
from ui.result.repeat import repeat_text
from ui.result.run_settings import SETTINGS

_POLICY = (
    "default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data: blob:; connect-src data: blob:; "
    "base-uri 'none'; form-action 'none'"
)
_BESIDE = ("Prompt", "System prompt", "Versions")  # settings that have a place of their own


@dataclass(slots=True)
class Sheet:
    """The report while it is put together: markup of ours, the scripts of its components, and the values of each of them."""

    markup: list[str] = field(default_factory=list)
    scripts: dict[str, int] = field(default_factory=dict)  # script → number
    values: list[dict[str, Any]] = field(default_factory=list)

    def add(self, parts: Iterable[Part]) -> None:
        for part in parts:
            self.markup.append(part if isinstance(part, str) else self._place(part))

    def _place(self, placed: Placed) -> str:
        """The template of a component; its script and its values are kept for the end of the file."""
        component = placed.component
        template = (
            component.html_template if component.js_on_load else ""
        )  # without a script the value is HTML, escaped
        script = self.scripts.setdefault(component.js_on_load or "element.innerHTML = props.value;", len(self.scripts))
        self.values.append({"script": script, "props": {**component.props, "value": placed.value}})
        name, classes = escape(component.elem_id or ""), escape(" ".join(component.elem_classes or []))
        number = len(self.values) - 1
        return f'<div data-piece="{number}" id="{name}" class="{classes}">{template}</div>'


def report_html(stored: StoredComparison) -> str:
    """The whole file, ASCII."""
    sheet = Sheet()
    sheet.add([asset("report.html"), *_parts(stored), "</main>"])
    return _document(sheet, figures=any("mars-figure-block" in markup for markup in sheet.markup))


def _parts(stored: StoredComparison) -> Iterator[Part]:
    result = reopened(stored)
    yield text(title_of(stored), "mars-report-title")
    yield text(
        displayable(" · ".join([f"{stored.created_at:%Y-%m-%d %H:%M} UTC", stored.id, *stored.tags])), "mars-page"
    )
    if stored.comment:
        yield text(displayable(stored.comment))
    yield Placed(strip_component(result.strip, scope=SCOPE), result.strip.html())
    for title, words in (("Prompt", stored.prompt.text), ("System prompt", stored.prompt.system)):
        if words:
            yield from (panel(title), text(displayable(words)), END)
    if not stored.runs:
        return
    yield from lane_parts(result)
    if result.details is not None:
        yield from number_parts(result.details)
        yield from figure_parts(result.details)
    yield from _settings(stored)


def _settings(stored: StoredComparison) -> Iterator[Part]:
    configs = [run.trace.config for run in stored.runs]
    names = [displayable(name) for name in run_names(configs)]
    settings = [
        (name, help_, [read(run.trace) for run in stored.runs]) for name, help_, read in SETTINGS if name not in _BESIDE
    ]
    yield from (panel("Settings"), table(_rows(names, settings), "settings"), END)
    yield panel(
        "How to repeat it", "The same settings on the command line; a comparison there runs strict in any case."
    )
    yield from (text(displayable(repeat_text(configs)), "mars-report-code"), END)
    yield from (panel("Versions and machine"), table(_rows(names, _versions(stored)), "versions"), END)


def _rows(names: Sequence[str], settings: Sequence[tuple[str, str, Sequence[str]]]) -> Table:
    told = [(name, help_, values) for name, help_, values in settings if any(values)]
    rows = tuple(
        (displayable(n), help_, tuple(Cell(displayable(v) or "–") for v in values)) for n, help_, values in told
    )
    return Table(("", *names), rows)


def _versions(stored: StoredComparison) -> list[tuple[str, str, list[str]]]:
    environments = [run.trace.config.environment for run in stored.runs]
    names = dict.fromkeys(name for environment in environments for name in environment)
    return [(name, "", [str(environment.get(name, "")) for environment in environments]) for name in names]


def _document(sheet: Sheet, *, figures: bool) -> str:
    functions = ",\n".join(f"(element, props, trigger, watch) => {{\n{script}\n}}" for script in sheet.scripts)
    own = f"const MADE = [{functions}];\n{asset('report.js')}"
    scripts = [*([LIBRARY.read_text(encoding="utf-8")] if figures else []), own]
    policy = _POLICY.format(scripts=" ".join(map(_hash, scripts)))
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark"><title>MARS Playground: report of a comparison</title>',
            f"<style>{report_css()}</style></head><body>",
            *sheet.markup,
            f'<script type="application/json" id="values">{to_json(sheet.values)}</script>',
            *(f"<script>{script}</script>" for script in scripts),
            "</body></html>",
        ]
    )


def _hash(script: str) -> str:
    return f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'"
