"""The panels of a report: its sections, the prompts, both texts of one. Escaped HTML."""

from __future__ import annotations

from markupsafe import Markup, escape

from evaluation.format import count, displayable, plural
from evaluation.report.document.blocks import Section
from evaluation.report.document.build import facts, plan_section, warning_section
from evaluation.report.document.prompts import HEADS, Texts, opened, prompt_cells
from evaluation.report.document.render import pages
from evaluation.report.document.tables import (
    likeness_section,
    overview_section,
    position_section,
    scores_section,
    speed_section,
    vote_section,
)
from evaluation.report.document.verdicts import verdict_section
from evaluation.report.values import PromptRow, Report
from ui.kit.panel import render

LISTED = 200  # prompts on the page; all are in the CSV


def section_html(section: Section) -> Markup:
    """One section of the report, with its title as ``h2``."""
    return Markup(pages().get_template("blocks.html.jinja").module.show_section(section))  # type: ignore[attr-defined]


def escaped(text: str) -> Markup:
    return escape(displayable(text))


def first_html(report: Report | None) -> str:
    """What stands above the charts: facts, verdict, warnings, the paper's table."""
    if report is None:
        return ""
    lines = "".join(f"<p>{escaped(fact)}</p>" for fact in facts(report))
    sections = filter(None, (verdict_section(report), warning_section(report), overview_section(report)))
    panels = "".join(f'<div class="mars-panel">{section_html(section)}</div>' for section in sections)
    return f'<div class="mars-quality-report"><div class="mars-quality-facts">{lines}</div>{panels}</div>'


def rest_html(report: Report | None) -> str:
    """What stands below the prompts, each to be unfolded."""
    if report is None:
        return ""
    makers = (speed_section, scores_section, likeness_section, position_section, vote_section, plan_section)
    panels = "".join(
        f'<details class="mars-panel mq-folded"><summary>{escaped(section.title)}</summary>{section_html(section)}</details>'
        for section in filter(None, (make(report) for make in makers))
    )
    return f'<div class="mars-quality-report">{panels}</div>'


def prompts_html(report: Report | None) -> str:
    """The prompts, worst first. The event ``select`` carries ``run``, the id of the rule's worst run of the row."""
    if report is None:
        return ""
    rows = report.prompts[:LISTED]
    total = plural(len(report.prompts), "row")
    note = f"the first {count(LISTED)} of {total}; study-prompts.csv has all" if len(report.prompts) > LISTED else total
    return render(
        "tabs/study/quality.html.jinja", part="prompts", heads=HEADS,
        rows=[(row.worst[1], prompt_cells(report.plan, row)) for row in rows],
        note=note if rows else "No prompt was run by a rule and by strict yet.",
    )  # fmt: skip


def find_prompt(report: Report, run: str) -> PromptRow | None:
    """The row that was chosen."""
    return next((row for row in report.prompts if row.worst[1] == run), None)


def texts_html(report: Report | None, row: PromptRow | None, texts: Texts | None) -> str:
    """Both texts, parted where they differ; empty where nothing is chosen."""
    if report is None or row is None:
        return ""
    return render(
        "tabs/study/quality.html.jinja", part="texts", shown=opened(report.plan, row, texts), run=row.worst[1],
        comparison=texts.comparison if texts else "", runs=texts.runs if texts else (),
    )  # fmt: skip
