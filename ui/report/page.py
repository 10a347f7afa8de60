"""A comparison as one HTML file that needs nothing else: no request, readable offline, light and
dark.

Texts and settings are blocks of a report's document, written by the same templates; tables of
numbers, lanes and figures are those of the page: constant templates, constant scripts and values.
All values are ASCII JSON without ``<``, which the scripts write with textContent.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import gradio as gr
from markupsafe import Markup

from display.blocks import Head, Paragraph, ReportTable, Section, TableCell
from display.render import colours, scripted
from mars_core.settings.recorded import REPEATED, cautions, documents
from mars_core.types import RunConfig
from storage import StoredComparison
from ui.kit.assets import asset
from ui.kit.components import strip_component
from ui.kit.labels import run_names
from ui.kit.panel import render
from ui.kit.theme import REPORT_SHEET, page_css
from ui.result.details import FIGURES, TABS, Details
from ui.result.numbers import SETTINGS
from ui.result.result import ended_result, title_of
from ui.result.view import details_html
from ui.token_view.components import lane_component, token_component

SCOPE = "report"
_SEPARATE = ("Prompt", "System prompt", "Versions")  # settings that have a separate section


@dataclass(slots=True)
class Components:
    """The components of a report: each script once, and the values of all."""

    scripts: dict[str, int] = field(default_factory=dict)  # script → number
    values: list[dict[str, Any]] = field(default_factory=list)

    def add(self, component: gr.HTML, value: str) -> Markup:
        """Add the template of a component, with the number of its values; the file's script draws
        it."""
        drawn = (
            component.js_on_load or "element.innerHTML = props.value;"
        )  # without a script it shows escaped HTML
        template = component.html_template if component.js_on_load else ""
        script = self.scripts.setdefault(drawn, len(self.scripts))
        self.values.append({"script": script, "props": {**component.props, "value": value}})
        number, classes = len(self.values) - 1, " ".join(component.elem_classes or [])
        element = Markup('<div data-piece="{}" id="{}" class="{}">{}</div>')
        return element.format(number, component.elem_id or "", classes, Markup(template))


def report_html(stored: StoredComparison, *, figures: bool = True, opens: str = "") -> str:
    """Return the report. Without ``figures`` and their library it is a third as large, as a
    notebook wants it. ``opens``: for a frame in another page, the address that opens the
    comparison here; prompt and result are all that stands in a frame."""
    components = Components()
    body = _body(stored, components, figures=figures)
    if opens:
        body |= {"tabs": [], "settings": []}
    body |= {
        "opens": opens,
        "title": "MARS Playground: report of a comparison",
        "style": report_css(),
        **scripted(
            figures=bool(body["tabs"]) and figures,
            functions=list(components.scripts),
            values=components.values,
        ),
    }
    return render("assets/comparison.html.jinja", **body)


def _body(stored: StoredComparison, components: Components, *, figures: bool) -> dict[str, Any]:
    result, reader = ended_result(stored), token_component("reader", SCOPE, runs=False)
    views, details = result.lanes if stored.runs else (), result.details
    texts = (
        ("prompt", "Prompt", stored.turns[0].prompt.text),
        ("system", "System prompt", stored.prompt.system),
    )
    facts = f"{stored.created_at:%Y-%m-%d %H:%M} UTC", stored.id, *stored.tags
    return {
        "name": title_of(stored),
        "facts": " · ".join(filter(None, facts)),
        "comment": stored.comment,
        "strip": components.add(strip_component(result.strip, scope=SCOPE), result.strip.html()),
        "prompts": [
            Section(name, title, (Paragraph(text, "prompt"),))
            for name, title, text in texts
            if text
        ],
        "turns": Markup(result.turns),
        "reader": components.add(reader, reader.value) if stored.runs else "",
        "lanes": [
            components.add(lane_component(view, scope=SCOPE, lane=lane), view.json())
            for lane, view in enumerate(views)
        ],
        "ribbon": components.add(token_component("ribbon", SCOPE), "") if stored.runs else "",
        "step": components.add(token_component("step", SCOPE), "") if stored.runs else "",
        "tabs": _tabs(details, figures=figures) if details else [],
        "settings": _settings(stored) if stored.runs else [],
    }


def report_css() -> str:
    """Return the page's style sheets and the colours of its theme, light and dark; nothing in them is
    fetched."""
    return colours() + page_css() + asset(f"styles/{REPORT_SHEET}.css")


def _tabs(details: Details, *, figures: bool) -> list[tuple[str, str, Markup]]:
    """Title, lead and content of what the page has in tabs and needs no answers of a server."""
    shown = ("Numbers", "Shift", *(each.tab for each in FIGURES if figures))
    return [
        (tab, TABS[tab], Markup(details_html(tab, details, SCOPE, figures=figures)))
        for tab in dict.fromkeys(shown)
    ]


def _settings(stored: StoredComparison) -> list[Section]:
    """Say how the runs were made, how to make them again, and on what."""
    configs = [run.trace.config for run in stored.runs]
    settings = [
        (name, help_, list(map(read, configs)))
        for name, help_, read in SETTINGS
        if name not in _SEPARATE
    ]
    names = dict.fromkeys(name for config in configs for name in config.environment)
    versions = [
        (name, "", [str(config.environment.get(name, "")) for config in configs]) for name in names
    ]
    files = [Paragraph(json.dumps(each, indent=1), "code") for each in documents(configs)]
    lead = " ".join([f"{REPEATED}.", *cautions(configs)])
    return [
        Section("settings", "Settings", (_by_run("Settings", configs, settings),)),
        Section("repeat", "How to repeat it", tuple(files), lead),
        Section(
            "versions",
            "Versions and machine",
            (_by_run("Versions and machine", configs, versions),),
        ),
    ]


def _by_run(
    label: str, configs: Sequence[RunConfig], settings: Sequence[tuple[str, str, Sequence[str]]]
) -> ReportTable:
    """Name, help and the value of every run; settings that no run has are left out."""
    some = [(name, help_, values) for name, help_, values in settings if any(values)]
    rows = tuple(
        (TableCell(name, help=help_), *(TableCell(value or "–") for value in values))
        for name, help_, values in some
    )
    return ReportTable(label, tuple(map(Head, ("", *run_names(configs)))), rows)
