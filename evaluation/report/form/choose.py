"""A part of a report: one suite, one temperature, one drafter. Values in, values out."""

from __future__ import annotations

from dataclasses import dataclass, replace

from evaluation.report.values import ALL, Measured, PromptRow, Report, Score


@dataclass(frozen=True, slots=True)
class Choice:
    """What is asked for; None is everything. ``suite`` is the name of a suite or ``all``; ``drafts`` as Lane.drafts says it."""

    suite: str | None = None
    temperature: float | None = None
    drafts: str | None = None


EVERYTHING = Choice()


def narrowed(report: Report, choice: Choice) -> Report:
    """The report with only what was chosen. The lane ``none`` stays, for speed-ups are over it. What is not in the report is no choice."""
    choice = known(report, choice)
    return replace(
        report,
        measured=tuple(row for row in report.measured if _chosen(report, choice, row)),
        prompts=tuple(row for row in report.prompts if _named(report, choice, row)),
    )


def known(report: Report, choice: Choice) -> Choice:
    """The choice without what the report has not."""
    plan = report.plan
    return Choice(
        choice.suite if choice.suite in (*(suite.name for suite in plan.suites), ALL) else None,
        choice.temperature if choice.temperature in plan.temperatures else None,
        choice.drafts if choice.drafts in drafts_of(report) else None,
    )


def drafts_of(report: Report) -> tuple[str, ...]:
    """The drafters of the study by name, in the order of the plan."""
    return tuple(dict.fromkeys(lane.drafts for lane in report.plan.lanes if lane.drafts))


def suite_of(group: str) -> str:
    """The suite of a group: of ``suite/category`` the suite."""
    return group.split("/", 1)[0]


def groups_of(report: Report) -> tuple[str, ...]:
    """Groups that were measured, in the order of the report."""
    return tuple(dict.fromkeys(row.group for row in report.measured))


def whole_groups(report: Report) -> tuple[str, ...]:
    """Suites and all of them together: no categories."""
    names = {suite.name for suite in report.plan.suites} | {ALL}
    return tuple(group for group in groups_of(report) if group in names)


def categories(report: Report) -> tuple[str, ...]:
    whole = whole_groups(report)
    return tuple(group for group in groups_of(report) if group not in whole)


def main_score(measured: Measured) -> Score | None:
    """The first metric of its suite, if there is something to score."""
    return next(iter(measured.scores.values()), None)


def rows_of(report: Report, group: str, temperature: float) -> tuple[Measured, ...]:
    """One row a lane, in the order of the plan."""
    return tuple(row for row in report.measured if row.group == group and row.temperature == temperature)


def _chosen(report: Report, choice: Choice, row: Measured) -> bool:
    lane = report.plan.lanes[row.lane]
    suites = (None, *_suites(report, row.group))
    return (
        choice.suite in suites
        and choice.temperature in (None, row.temperature)
        and (choice.drafts in (None, lane.drafts) or not lane.drafts)
    )


def _suites(report: Report, group: str) -> tuple[str, ...]:
    """The choices that show a group; a suite may have a slash in its name."""
    return tuple(
        suite.name for suite in report.plan.suites if group == suite.name or group.startswith(f"{suite.name}/")
    ) or (group,)


def _named(report: Report, choice: Choice, row: PromptRow) -> bool:
    return (
        choice.suite in (None, ALL, row.suite)
        and choice.temperature in (None, row.temperature)
        and choice.drafts in (None, report.plan.lanes[row.lane].drafts)
    )
