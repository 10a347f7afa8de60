"""The prompts before the start; the panels of a report, as escaped HTML: its sections, the prompts,
one of them in full."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from display.format import count, plural
from evaluation.advise.usage import uses
from evaluation.report.document.build import document
from evaluation.report.document.prompts import HEADS, Texts, opened, prompt_cells
from evaluation.report.rows import PromptRow
from evaluation.report.values import Report
from evaluation.suites.typed import TYPED
from mars_core.models import CATALOG
from ui.kit.panel import render
from ui.tabs.study.form import StudyForm

KEYS = {spec.key for spec in CATALOG}
MOST_PROMPTS = 200  # prompts on the page; all are in the CSV
FIRST = ("kept", "certificate", "matched", "table")
APART = (*FIRST, "prompts")  # what is not folded with the rest
_render = partial(render, "tabs/study/quality.html.jinja")  # a part of the tab's template


def typed_html(form: StudyForm) -> str:
    """Return the prompts and right answers that were read from what is typed; nothing where the
    note says why they cannot be, and of a built-in suite."""
    try:
        items = form.chosen_suite().items if form.text("suite") == TYPED else ()
    except ValueError:
        return ""
    scored = sum(bool(item.references) for item in items)
    return _render(part="typed", items=items, scored=scored, most=MOST_PROMPTS) if items else ""


def first_html(report: Report) -> str:
    """Return what is not folded: the sentence with its picture, the paper's table, facts."""
    full, compare = document(report, {}), compare_address(report)
    sections = [section for section in full.sections if section.name in FIRST]
    return _render(part="first", facts=full.facts, sections=sections, compare=compare)


def compare_address(report: Report) -> str:
    """Return the query that fills Compare with the setting that a certificate supports; empty
    without one, and for models that an address cannot name."""
    plan, certificate = report.plan, report.certificate
    if not certificate or not certificate.chosen or plan.models.key not in KEYS:
        return ""
    return uses(plan, plan.lanes[certificate.chosen.lane])["page"]


def rest_html(report: Report) -> str:
    """Return everything else, each to be unfolded."""
    sections = document(report, {}).sections
    return _render(part="rest", sections=[each for each in sections if each.name not in APART])


def prompts_html(report: Report) -> str:
    """Return the prompts, worst first; nothing where there are none. The event ``select`` carries
    ``run``, the id of the rule's worst run of the row."""
    if not report.prompts:
        return ""
    rows = report.prompts[:MOST_PROMPTS]
    total = plural(len(report.prompts), "row")
    note = (
        f"the first {count(MOST_PROMPTS)} of {total}; study-prompts.csv has all"
        if len(report.prompts) > MOST_PROMPTS
        else total
    )
    return _render(
        part="prompts",
        heads=HEADS,
        rows=[(row.worst[1], prompt_cells(report.plan, row)) for row in rows],
        note=note,
    )


def texts_html(report: Report, row: PromptRow, texts: Texts | None) -> str:
    """Show a prompt in full; both runs are displayed below as token views."""
    return _render(
        part="texts",
        prompt=replace(opened(report.plan, row, texts), sides=()),
        run=row.worst[1],
        comparison=texts.comparison if texts else "",
        runs=texts.runs if texts else (),
    )
