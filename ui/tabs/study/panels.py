"""The prompts before the start; the panels of a report, as escaped HTML: its sections,
the prompts, one of them in full; and the part of the report that its filters select."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from display.format import count, displayable, plural
from display.names import drafts_label
from evaluation.advise.usage import uses
from evaluation.plan.lane import Lane
from evaluation.report.document.build import document
from evaluation.report.document.prompts import HEADS, Texts, opened, prompt_cells
from evaluation.report.measured import Measured
from evaluation.report.rows import PromptRow
from evaluation.report.values import ALL, Report
from evaluation.suites.typed import TYPED
from mars_core.models import CATALOG
from ui.kit.panel import render
from ui.settings.fields import Choices
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


EVERY = ""  # the choice of everything


def filter_choices(report: Report) -> tuple[Choices, Choices, Choices]:
    """Suites, temperatures and drafters."""
    names = [suite.name for suite in report.plan.suites]
    together = [("together", ALL)] if len(names) > 1 else []
    return (
        [("all suites", EVERY), *((displayable(name), name) for name in names), *together],
        [("all", EVERY), *((f"T = {each:g}", f"{each:g}") for each in report.plan.temperatures)],
        [("all", EVERY), *((displayable(drafts_label(name)), name) for name in report.drafts)],
    )


def narrowed(
    report: Report, suite: object = EVERY, temperature: object = EVERY, drafts: object = EVERY
) -> Report:
    """Return the report with only what the filters select, whatever they hold: what it does not
    have is ignored. The lane ``none`` stays, since speed-ups are over it; a suite shows its
    categories too, and loads and followed tokens are of all suites."""
    plan = report.plan
    suites = [each.name for each in plan.suites]
    group = suite if suite in (*suites, ALL) else None
    degrees = next((each for each in plan.temperatures if f"{each:g}" == temperature), None)
    drafter = drafts if drafts in report.drafts else None

    def runs(lane: Lane, degrees_here: float, *also: str) -> bool:
        return degrees in (None, degrees_here) and lane.drafts in (drafter or lane.drafts, *also)

    def shows(row: Measured | PromptRow, groups: list[str], *also: str) -> bool:
        return group in (None, *groups) and runs(plan.lanes[row.lane], row.temperature, *also)

    def groups_of(row: Measured) -> list[str]:
        """Return the suites that a group belongs to; the name of one may have a slash."""
        return [name for name in suites if f"{row.group}/".startswith(f"{name}/")] or [row.group]

    return replace(
        report,
        measured=tuple(row for row in report.measured if shows(row, groups_of(row), "")),
        prompts=tuple(row for row in report.prompts if shows(row, [ALL, row.suite])),
        loads=tuple(row for row in report.loads if runs(row.lane, row.temperature, "")),
        followed=tuple(
            row for row in report.followed if runs(plan.lanes[row.lane], row.temperature)
        ),
    )
