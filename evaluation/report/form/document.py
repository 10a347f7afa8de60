"""A report as a document: what stands where. The verdict first, then what to beware of, then the numbers. Values in, values out."""

from __future__ import annotations

from collections.abc import Mapping

from evaluation.format import count, plural
from evaluation.report.form.blocks import Block, Document, Listing, Paragraph, Picture, Section
from evaluation.report.form.cells import margin
from evaluation.report.form.chart import chart, chart_groups
from evaluation.report.form.command import again
from evaluation.report.form.overview import overview_section
from evaluation.report.form.prompts import Texts, prompt_section
from evaluation.report.form.svg import parameter_svg, tradeoff_svg
from evaluation.report.form.tables import (
    likeness_section,
    position_section,
    scores_section,
    speed_section,
    vote_section,
)
from evaluation.report.form.verdicts import verdict_section
from evaluation.report.values import Report
from evaluation.suites.item import Suite

NO_COMMAND = "The lanes of this study are not every rule with every drafter, so no one command plans it; the database keeps its plan."


def document(report: Report, texts: Mapping[tuple[str, str], Texts] | None) -> Document:
    """Everything. ``texts``: of the worst prompts, as ``texts.worst_texts`` reads them; None leaves them out."""
    votes = vote_section(report)
    sections = (
        verdict_section(report),
        warning_section(report),
        overview_section(report),
        picture_section(report),
        prompt_section(report, texts),
        speed_section(report),
        scores_section(report),
        likeness_section(report),
        position_section(report),
        votes,
        plan_section(report),
    )
    return Document(report.plan.name, facts(report), tuple(section for section in sections if section is not None))


def facts(report: Report) -> tuple[str, ...]:
    """What the study is, in a few short lines; that it has not ended comes first."""
    plan = report.plan
    names = ", ".join(f"{suite.name} ({plural(len(suite.items), 'prompt')})" for suite in plan.suites)
    models = [ref.name for ref in (plan.models.draft, plan.models.head) if ref]
    open_ = [f"Not finished: {count(report.tasks_done)} of {count(plan.tasks)} tasks; every number may still change."]
    return (
        *(open_ if report.tasks_done < plan.tasks else []),
        f"{names}; {plural(plan.repeats, 'seed')} a prompt; T = {', '.join(f'{each:g}' for each in plan.temperatures)}",
        f"{plan.models.target.name}{', drafts by ' if models else ''}{' and '.join(models)}; {plural(len(plan.lanes), 'lane')}; "
        f"at most {count(plan.max_new_tokens)} new tokens a turn; margin {margin(plan.margin)}",
        f"Study {report.id}, planned {report.created_at:%Y-%m-%d %H:%M} UTC, {plural(plan.tasks, 'task')}",
    )


def warning_section(report: Report) -> Section | None:
    """None where there is nothing to beware of."""
    if not report.warnings:
        return None
    return Section("warnings", "Beware", (Listing(report.warnings, "warnings"),))


def picture_section(report: Report) -> Section | None:
    """The charts of every whole group that has them."""
    blocks: list[Block] = []
    for group in chart_groups(report):
        found = chart(report, group)
        assert found is not None
        name = f"chart-{1 + len(blocks) // 2}"
        for kind, svg in (("parameter", parameter_svg(found)), ("tradeoff", tradeoff_svg(found))):
            if svg:
                blocks.append(Picture(f"{name}-{kind}", svg, found.title))
    if not blocks:
        return None
    lead = "Shape says the drafter, filled or hollow the temperature; bars are 95 % intervals. In the second chart, upper right is better."
    return Section("charts", "What speed costs", tuple(blocks), lead)


def plan_section(report: Report) -> Section:
    """How to make it again, and where it was made."""
    command = again(report.plan)
    blocks: list[Block] = [Paragraph(command, "code") if command else Paragraph(NO_COMMAND, "note")]
    sources = tuple(map(_source, report.plan.suites))
    blocks += [
        Listing(sources, "facts"),
        Listing(tuple(f"{name}: {value}" for name, value in report.environment.items()), "facts"),
    ]
    return Section(
        "plan",
        "How to repeat it",
        tuple(blocks),
        "The suites must be the same files; the environment of the runs stands below.",
    )


def _source(suite: Suite) -> str:
    where = suite.source if suite.source not in ("", suite.name) else "built in"
    return f"{suite.name}: {where}{f', SHA-256 {suite.sha256}' if suite.sha256 else ''}"
