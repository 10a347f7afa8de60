"""A part of a report: one suite, one temperature, one drafter."""

from __future__ import annotations

from dataclasses import dataclass, replace

from evaluation.report.values import ALL, Measured, PromptRow, Report, Score


@dataclass(frozen=True, slots=True)
class Choice:
    """None is everything. ``suite`` is the name of a suite or ``all``; ``drafts`` a drafter as ``Lane.drafts`` names it."""

    suite: str | None = None
    temperature: float | None = None
    drafts: str | None = None


EVERYTHING = Choice()


def narrowed(report: Report, choice: Choice) -> Report:
    """The report with only what was chosen. The lane ``none`` stays: speed-ups are over it. What the report does not have is ignored."""
    choice = known(report, choice)
    return replace(
        report,
        measured=tuple(row for row in report.measured if _shows_group(report, choice, row)),
        prompts=tuple(row for row in report.prompts if _shows_prompt(report, choice, row)),
    )


def known(report: Report, choice: Choice) -> Choice:
    """The choice without what the report does not have."""
    plan = report.plan
    return Choice(
        choice.suite if choice.suite in (*(suite.name for suite in plan.suites), ALL) else None,
        choice.temperature if choice.temperature in plan.temperatures else None,
        choice.drafts if choice.drafts in drafts_of(report) else None,
    )


def drafts_of(report: Report) -> tuple[str, ...]:
    """The drafters of the study by name, in the order of the plan."""
    return tuple(dict.fromkeys(lane.drafts for lane in report.plan.lanes if lane.drafts))


def whole_groups(report: Report) -> tuple[str, ...]:
    """Suites, and all of them together: no categories."""
    names = {suite.name for suite in report.plan.suites} | {ALL}
    return tuple(group for group in dict.fromkeys(row.group for row in report.measured) if group in names)


def main_score(measured: Measured) -> Score | None:
    """The first metric of its suite, if there is something to score."""
    return next(iter(measured.scores.values()), None)


def rows_of(report: Report, group: str, temperature: float) -> tuple[Measured, ...]:
    """One row a lane, in the order of the plan."""
    return tuple(row for row in report.measured if row.group == group and row.temperature == temperature)


def _shows_group(report: Report, choice: Choice, row: Measured) -> bool:
    """A suite shows its categories too; it may have a slash in its name."""
    names = [suite.name for suite in report.plan.suites if f"{row.group}/".startswith(f"{suite.name}/")] or [row.group]
    return (
        choice.suite in (None, *names)
        and choice.temperature in (None, row.temperature)
        and report.plan.lanes[row.lane].drafts in (choice.drafts or report.plan.lanes[row.lane].drafts, "")
    )


def _shows_prompt(report: Report, choice: Choice, row: PromptRow) -> bool:
    return (
        choice.suite in (None, ALL, row.suite)
        and choice.temperature in (None, row.temperature)
        and choice.drafts in (None, report.plan.lanes[row.lane].drafts)
    )
