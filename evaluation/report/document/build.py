"""A report as a document: what is kept in one picture, the verdict, the caveats, then the numbers."""

from __future__ import annotations

from collections.abc import Mapping

from display.blocks import Bullets, Paragraph, Picture, ReportDocument, Section
from display.format import count, plural
from display.plot import Plot
from evaluation.item import Suite
from evaluation.plan.plan import PLAN, Plan
from evaluation.report.document.cells import margin
from evaluation.report.document.charts import charts, plots
from evaluation.report.document.over import followed_section, length_section, load_section
from evaluation.report.document.prompts import Texts, prompt_section
from evaluation.report.document.purpose import certificate_section, matching_section
from evaluation.report.document.rows import row_sections, vote_section
from evaluation.report.document.tables import lane_sections, overview_section
from evaluation.report.document.verdicts import kept_section, main_group, verdict_section
from evaluation.report.values import Report
from mars_core.drafting import DRAFTERS

CHARTS = "What speed costs"
CHARTS_LEAD = (
    "Shapes are drafters, filled or hollow marks are temperatures; bars are 95 % intervals. A "
    "line joins the lanes of at least 5 runs that no other beats on both axes."
)
KINDS = {
    "kept": "What is kept over the speed",
    "parameter": "Quality and speed over the parameter",
}
REPEATED = f"mars eval run --plan {PLAN}"


def document(report: Report, texts: Mapping[tuple[str, str], Texts] | None) -> ReportDocument:
    """Return the complete document. ``texts``: of the worst prompts, from ``texts.worst_texts``;
    None, for a terminal, leaves them out."""
    speed, *others = lane_sections(report)
    every = charts(report)
    drawn = {
        f"chart-{number}-{kind}": plot
        for number, chart in enumerate(every, start=1)
        for kind, plot in plots(chart).items()
    }
    group = main_group(report)
    main = next((f"chart-{at}-kept" for at, each in enumerate(every, 1) if each.group == group), "")
    sections = (
        kept_section(report, group, drawn.pop(main, None)),
        *first_sections(report),
        *row_sections(report),
        Section("warnings", "Caveats", (Bullets(report.warnings, "warnings"),))
        if report.warnings
        else None,
        overview_section(report),
        picture_section(drawn),
        followed_section(report),
        prompt_section(report, texts),
        speed,
        load_section(report),
        length_section(report),
        *others,
        vote_section(report),
        plan_section(report),
    )
    return ReportDocument(report.plan.name, facts(report), tuple(filter(None, sections)))


def first_sections(report: Report) -> tuple[Section, ...]:
    """Return what a report begins with: a certificate, or verdicts, first the equal τ if any."""
    if report.certificate:
        return (certificate_section(report, report.certificate),)
    matched = (matching_section(report),) if report.plan.matching else ()
    return (*matched, verdict_section(report))


def purpose_document(report: Report) -> ReportDocument:
    """Return its beginning alone: what the study was for."""
    return ReportDocument(report.plan.name, facts(report), first_sections(report))


def facts(report: Report) -> tuple[str, ...]:
    """Describe the study in a few short lines; first whether it is unfinished."""
    plan = report.plan
    suites = ", ".join(
        f"{suite.name} ({plural(len(suite.items), 'prompt')})" for suite in plan.suites
    )
    unfinished = f"Not finished: {count(report.tasks_done)} of {count(plan.tasks)} tasks; every number may still change."
    two = plan.served and plan.served.baseline_url
    baseline = f"; strict is {plan.served.baseline_model} of {two}" if plan.served and two else ""
    return (
        *([unfinished] if report.tasks_done < plan.tasks else []),
        f"{suites}; {plural(plan.repeats, 'seed')} a prompt; T = "
        f"{', '.join(f'{each:g}' for each in plan.temperatures)}",
        f"{plan.models.target.name}{_drafters(plan)}; {plural(len(plan.lanes), 'lane')}; at most "
        f"{count(plan.max_new_tokens)} new tokens a turn; margin {margin(plan.margin)}",
        *([f"Runs of the server {plan.served.url}{baseline}"] if plan.served else []),
        f"Study {report.id}, planned {report.created_at:%Y-%m-%d %H:%M} UTC, "
        f"{plural(plan.tasks, 'task')}",
    )


def _drafters(plan: Plan) -> str:
    """Name the drafters used by a lane; the pair may have more."""
    used = {lane.drafter.kind for lane in plan.lanes if lane.drafts}
    kinds = [kind for name, kind in DRAFTERS.items() if name in used]
    names = [ref.name if (ref := kind.model(plan.models)) else kind.title for kind in kinds]
    return f", drafts by {' and '.join(names)}" if names else ""


def picture_section(drawn: Mapping[str, Plot]) -> Section | None:
    """Return the other pictures. ``drawn``: those of charts, by name."""
    pictures = tuple(
        Picture(name, KINDS[name.rpartition("-")[2]], plot) for name, plot in drawn.items()
    )
    return Section("charts", CHARTS, pictures, CHARTS_LEAD) if pictures else None


def plan_section(report: Report) -> Section:
    """Say how the study is repeated, and the environment of its runs."""
    blocks = (
        Paragraph(REPEATED, "code"),
        Bullets(tuple(map(_source, report.plan.suites)), "facts"),
        Bullets(tuple(f"{name}: {value}" for name, value in report.environment.items()), "facts"),
    )
    lead = (
        f"{PLAN}, with all prompts, is in the folder of the report (--folder, or the page's ZIP)."
    )
    return Section("plan", "How to repeat it", blocks, lead)


def _source(suite: Suite) -> str:
    where = suite.source if suite.source not in ("", suite.name) else "built in"
    return f"{suite.name}: {where}{f', SHA-256 {suite.sha256}' if suite.sha256 else ''}"
