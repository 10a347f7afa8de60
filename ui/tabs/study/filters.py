"""The filters of a report: what they offer, and the part of the report that they select."""

from __future__ import annotations

from dataclasses import replace

from display.format import displayable
from evaluation.plan.lane import Lane
from evaluation.report.measured import Measured
from evaluation.report.rows import PromptRow
from evaluation.report.values import ALL, Report
from ui.settings.fields import Choices

EVERY = ""  # the choice of everything


def filter_choices(report: Report) -> tuple[Choices, Choices, Choices]:
    """Suites, temperatures and drafters."""
    names = [suite.name for suite in report.plan.suites]
    together = [("together", ALL)] if len(names) > 1 else []
    return (
        [("all suites", EVERY), *((displayable(name), name) for name in names), *together],
        [("all", EVERY), *((f"T = {each:g}", f"{each:g}") for each in report.plan.temperatures)],
        [("all", EVERY), *((displayable(name), name) for name in report.drafts)],
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
