"""The panels of a report: its sections, the charts, the prompts, one of them in full. Escaped HTML."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from markupsafe import Markup, escape

from evaluation.format import count, displayable, plural
from evaluation.report.document import tables
from evaluation.report.document.blocks import Section
from evaluation.report.document.build import CHARTS, CHARTS_LEAD, facts, plan_section, warning_section
from evaluation.report.document.chart import HEADS as CHART_HEADS
from evaluation.report.document.chart import charts, drawings
from evaluation.report.document.prompts import HEADS, Texts, opened, prompt_cells
from evaluation.report.document.render import pages
from evaluation.report.document.verdicts import verdict_section
from evaluation.report.files import csv_text
from evaluation.report.values import PromptRow, Report

LISTED = 200  # prompts on the page; all are in the CSV
FOLDED = (
    tables.speed_section,
    tables.scores_section,
    tables.likeness_section,
    tables.position_section,
    tables.vote_section,
    plan_section,
)


def render(part: str, **values: Any) -> str:
    """A part of the tab's template, which uses those of the report."""
    return (
        pages(("ui", "kit/templates"), ("ui", "tabs/study"))
        .get_template("quality.html.jinja")
        .render(part=part, **values)
    )


def section_html(section: Section) -> Markup:
    """One section of the report, with its title as ``h2``."""
    return Markup(pages().get_template("blocks.html.jinja").module.show_section(section))  # type: ignore[attr-defined]


def escaped(text: str) -> Markup:
    return escape(displayable(text))


def first_html(report: Report) -> str:
    """What stands above the charts: facts, verdict, warnings, the paper's table."""
    lines = "".join(f"<p>{escaped(fact)}</p>" for fact in facts(report))
    sections = filter(None, (verdict_section(report), warning_section(report), tables.overview_section(report)))
    panels = "".join(f'<div class="mars-panel">{section_html(section)}</div>' for section in sections)
    return f'<div class="mars-quality-report"><div class="mars-quality-facts">{lines}</div>{panels}</div>'


def charts_html(report: Report) -> str:
    """The report's own drawings, with their numbers for chart.js; nothing where there are none."""
    shown = [
        (kind, chart.title, drawing, csv_text([CHART_HEADS, *chart.rows]))
        for chart in charts(report)
        for kind, drawing in drawings(chart).items()
    ]
    return render("charts", title=CHARTS, lead=CHARTS_LEAD, charts=shown) if shown else ""


def rest_html(report: Report) -> str:
    """What stands below the prompts, each to be unfolded."""
    panels = "".join(
        f'<details class="mars-panel mq-folded"><summary>{escaped(section.title)}</summary>{section_html(section)}</details>'
        for section in filter(None, (make(report) for make in FOLDED))
    )
    return f'<div class="mars-quality-report">{panels}</div>'


def prompts_html(report: Report) -> str:
    """The prompts, worst first; nothing where there are none. The event ``select`` carries ``run``, the id of the rule's worst run of
    the row."""
    if not report.prompts:
        return ""
    rows = report.prompts[:LISTED]
    total = plural(len(report.prompts), "row")
    note = f"the first {count(LISTED)} of {total}; study-prompts.csv has all" if len(report.prompts) > LISTED else total
    return render(
        "prompts", heads=HEADS, rows=[(row.worst[1], prompt_cells(report.plan, row)) for row in rows],
        note=note,
    )  # fmt: skip


def texts_html(report: Report, row: PromptRow, texts: Texts | None) -> str:
    """A prompt in full; both runs are shown below as token views."""
    return render(
        "texts", shown=replace(opened(report.plan, row, texts), sides=()), run=row.worst[1],
        comparison=texts.comparison if texts else "", runs=texts.runs if texts else (),
    )  # fmt: skip
