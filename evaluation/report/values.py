"""The values of a report: computed by evaluation.report.measure, displayed by the page, HTML, Markdown
and CSV.

Every number comes with its number of prompts and seeds. Undefined numbers are nan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from evaluation.advise.certificate import Certificate, LaneDifference
from evaluation.plan.plan import Plan
from evaluation.report.measured import Measured
from evaluation.report.rows import (
    CurveRow,
    FollowedRow,
    InterventionRow,
    LengthRow,
    LoadRow,
    PlaceboRow,
    PromptRow,
    SharpenedRow,
    VoteRow,
)

ALL = "all"  # the group of all suites together


@dataclass(frozen=True, slots=True)
class Report:
    """One study. ``measured``: groups × temperatures × lanes in the order of the plan, ``ALL`` last
    where there are several suites."""

    id: str
    plan: Plan
    created_at: datetime
    tasks_done: int
    results: int  # lanes of tasks that were saved
    environment: Mapping[str, str]  # of the runs; all values where they differ
    measured: tuple[Measured, ...]
    prompts: tuple[PromptRow, ...]  # worst first
    warnings: tuple[str, ...]  # one sentence each
    votes: tuple[VoteRow, ...] = ()
    judged: tuple[VoteRow, ...] = ()  # votes of a language model, both orders
    loads: tuple[LoadRow, ...] = ()  # of a study on servers or in batches
    followed: tuple[FollowedRow, ...] = ()
    interventions: tuple[InterventionRow, ...] = ()
    placebos: tuple[PlaceboRow, ...] = ()
    sharpened: tuple[SharpenedRow, ...] = ()
    curves: tuple[CurveRow, ...] = ()
    lengths: tuple[LengthRow, ...] = ()
    certificate: Certificate | None = None  # of a study for advice
    differences: tuple[LaneDifference, ...] = ()  # of rules at equal τ

    @property
    def drafts(self) -> tuple[str, ...]:
        """The drafters of the study by name, in the order of the plan."""
        return tuple(dict.fromkeys(lane.drafts for lane in self.plan.lanes if lane.drafts))

    @property
    def suite_groups(self) -> tuple[str, ...]:
        """Groups of complete suites, and of all suites; without categories."""
        names = self.plan.suite_names | {ALL}
        return tuple(
            group for group in dict.fromkeys(row.group for row in self.measured) if group in names
        )
