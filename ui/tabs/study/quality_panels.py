"""The panels of a report: its sections, the charts, the prompts, one of them in full, as escaped HTML; and the filters above them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from evaluation.format import count, displayable, plural
from evaluation.report.document import tables
from evaluation.report.document.build import CHARTS, CHARTS_LEAD, facts, plan_section, warning_section
from evaluation.report.document.chart import HEADS as CHART_HEADS
from evaluation.report.document.chart import charts, drawings
from evaluation.report.document.prompts import HEADS, Texts, opened, prompt_cells
from evaluation.report.document.verdicts import verdict_section
from evaluation.report.files import csv_text
from evaluation.report.values import ALL, Measured, PromptRow, Report
from ui.kit.panel import render

LISTED = 200  # prompts on the page; all are in the CSV
FOLDED = (
    tables.speed_section,
    tables.scores_section,
    tables.likeness_section,
    tables.position_section,
    tables.vote_section,
    plan_section,
)
_render = partial(render, "tabs/study/quality.html.jinja")  # a part of the tab's template


def first_html(report: Report) -> str:
    """What stands above the charts: facts, verdict, warnings, the paper's table."""
    sections = filter(None, (verdict_section(report), warning_section(report), tables.overview_section(report)))
    return _render(part="first", facts=facts(report), sections=sections)


def charts_html(report: Report) -> str:
    """The report's own drawings, with their numbers for chart.js; nothing where there are none."""
    shown = [
        (kind, chart.title, drawing, csv_text([CHART_HEADS, *chart.rows]))
        for chart in charts(report)
        for kind, drawing in drawings(chart).items()
    ]
    return _render(part="charts", title=CHARTS, lead=CHARTS_LEAD, charts=shown) if shown else ""


def rest_html(report: Report) -> str:
    """What stands below the prompts, each to be unfolded."""
    return _render(part="rest", sections=filter(None, (make(report) for make in FOLDED)))


def prompts_html(report: Report) -> str:
    """The prompts, worst first; nothing where there are none. The event ``select`` carries ``run``, the id of the rule's worst run of
    the row."""
    if not report.prompts:
        return ""
    rows = report.prompts[:LISTED]
    total = plural(len(report.prompts), "row")
    note = f"the first {count(LISTED)} of {total}; study-prompts.csv has all" if len(report.prompts) > LISTED else total
    return _render(
        part="prompts", heads=HEADS, rows=[(row.worst[1], prompt_cells(report.plan, row)) for row in rows],
        note=note,
    )  # fmt: skip


def texts_html(report: Report, row: PromptRow, texts: Texts | None) -> str:
    """A prompt in full; both runs are shown below as token views."""
    return _render(
        part="texts", shown=replace(opened(report.plan, row, texts), sides=()), run=row.worst[1],
        comparison=texts.comparison if texts else "", runs=texts.runs if texts else (),
    )  # fmt: skip


EVERY = ""  # the choice of everything
Choices = list[tuple[str, str]]


def filter_choices(report: Report) -> tuple[Choices, Choices, Choices]:
    names = [suite.name for suite in report.plan.suites]
    together = [("together", ALL)] if len(names) > 1 else []
    return (
        [("all suites", EVERY), *((displayable(name), name) for name in names), *together],
        [("all", EVERY), *((f"T = {each:g}", f"{each:g}") for each in report.plan.temperatures)],
        [("all", EVERY), *((displayable(name), name) for name in report.drafts)],
    )


def narrowed(report: Report, suite: object = EVERY, temperature: object = EVERY, drafts: object = EVERY) -> Report:
    """The report with only what the filters ask for, whatever they hold: what it does not have is ignored. The lane ``none`` stays, since
    speed-ups are over it; a suite shows its categories too."""
    plan = report.plan
    suites = [each.name for each in plan.suites]
    group = suite if suite in (*suites, ALL) else None
    degrees = next((each for each in plan.temperatures if f"{each:g}" == temperature), None)
    drafter = drafts if drafts in report.drafts else None

    def shows(row: Measured | PromptRow, groups: list[str], *also: str) -> bool:
        here = plan.lanes[row.lane].drafts
        return group in (None, *groups) and degrees in (None, row.temperature) and here in (drafter or here, *also)

    def groups_of(row: Measured) -> list[str]:
        """The suites that a group belongs to; the name of one may have a slash."""
        return [name for name in suites if f"{row.group}/".startswith(f"{name}/")] or [row.group]

    return replace(
        report,
        measured=tuple(row for row in report.measured if shows(row, groups_of(row), "")),
        prompts=tuple(row for row in report.prompts if shows(row, [ALL, row.suite])),
    )
