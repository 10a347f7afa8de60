"""What studies found of a rule: the file of the project's own agrees with their reports; a study in
the database comes before them where it can decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest

from display.format import percent
from evaluation.recovery import RecoveryOutcome
from evaluation.report import verdicts
from evaluation.report.document.cells import beside
from evaluation.report.verdicts import FILE, Verdict, Verdicts, from_results, stored, written
from evaluation.statistics import Interval
from mars_core.types import ModelRef, RuleConfig, RunConfig, Sampling, TreeShape
from storage import RunStore, StudyHead
from tests.traces import make_trace
from tests.unit.evaluation.report.drawn import (
    START,
    FakeStore,
    drawn_results,
    reported,
    row_of,
    study_plan,
)
from tests.unit.evaluation.saved import MODEL

DOCS = Path(__file__).parents[4] / "docs"


def test_the_file_is_that_of_the_results_and_agrees_with_their_reports() -> None:
    assert FILE.read_text(encoding="utf-8") == written(from_results())
    reports = {each.report: (DOCS / each.report).read_text(encoding="utf-8") for each in stored()}
    compared = 0
    for each in stored():
        lines = reports[each.report].splitlines()
        rule, suite = each.rule.replace("*", "\\*"), each.suite.replace("_", "\\_")
        setting = f"| {rule} | {each.drafts} | {suite} | {each.temperature:g} |"
        found = [line for line in lines if line.startswith(setting) and each.outcome.value in line]
        if each.report != "results.md":
            value = beside(each.recovery, percent).replace("[", "\\[")
            assert any(value in line for line in found), each
            compared += 1
    assert compared > 60


def of(rule: str, parameters: dict[str, float], temperature: float = 1.0) -> RunConfig:
    made = make_trace(rule="mars").config
    return replace(
        made,
        rule=RuleConfig(rule, parameters),
        drafter=replace(MODEL, model=ModelRef("draft")),
        target=ModelRef("target"),
        sampling=Sampling(temperature),
    )


CONFIG = of("mars", {"theta": 0.9})
SHIPPED = Verdict(
    *("target", "draft", "model K=5", "mars(theta=0.9)", 1.0, "sums", 300, 1),
    Interval(0.9, 0.85, 0.95),
    *(0.98, RecoveryOutcome.NOT_SUPPORTED, "s", "results/x.md"),
)


@dataclass
class Studies(FakeStore):
    """Of one study, so far as it is done."""

    def studies(self) -> Sequence[StudyHead]:
        done = len({row.task for row in self.stored})
        return [StudyHead("study", START, "drawn", self.plan.tasks, done)]


def store_of(items: int, tasks: int | None = None) -> RunStore:
    plan = study_plan(items, 1)
    drafted = replace(MODEL, model=ModelRef("draft"))
    lanes = tuple(replace(lane, drafter=drafted) for lane in plan.lanes[1:])
    plan = replace(plan, lanes=(plan.lanes[0], *lanes))
    return cast(RunStore, Studies(plan, drawn_results(plan, tasks=tasks)))


@pytest.mark.parametrize(
    ("items", "tasks", "own"), [(40, None, True), (40, 30, False), (20, None, False)]
)
def test_a_study_that_ended_and_can_decide_comes_first(
    monkeypatch: pytest.MonkeyPatch, items: int, tasks: int | None, own: bool
) -> None:
    monkeypatch.setattr(verdicts, "stored", lambda: (SHIPPED,))
    found = Verdicts().best(store_of(items, tasks), CONFIG)
    assert found is not None and (found.report == "") is own
    if own:
        report = reported(store_of(items).plan, store_of(items).stored)  # type: ignore[attr-defined]
        row = row_of(report, 2)
        assert row.main_score is not None and found.recovery == row.main_score.recovery
        assert (found.prompts, found.outcome) == (items, row.main_score.verdict)
    # without one of ours a small one is all that there is
    monkeypatch.setattr(verdicts, "stored", lambda: ())
    assert (Verdicts().best(store_of(items, tasks), CONFIG) is None) is (tasks is not None)


@pytest.mark.parametrize(
    "config",
    [
        of("mars", {"theta": 0.8}),
        of("mars", {"theta": 0.9}, 0.5),
        replace(CONFIG, target=ModelRef("another")),
        replace(CONFIG, drafter=replace(CONFIG.drafter, model=ModelRef("another"))),
    ],
)
def test_what_was_not_measured_has_no_verdict(
    monkeypatch: pytest.MonkeyPatch, config: RunConfig
) -> None:
    monkeypatch.setattr(verdicts, "stored", lambda: (SHIPPED,))
    assert Verdicts().best(store_of(40), config) is None


def test_other_drafts_count_less_and_are_named_so() -> None:
    tree = replace(CONFIG.drafter, tree=TreeShape(9, 4, 2))
    lane: Any = verdicts.Lane(CONFIG.rule, tree)
    other = replace(SHIPPED, drafts="model 9/4/2", prompts=40)
    found = verdicts.best((SHIPPED, other), replace(CONFIG, drafter=tree))
    assert found is other and found.has_drafts(lane) and not SHIPPED.has_drafts(lane)
    assert verdicts.best((SHIPPED, other), CONFIG) is SHIPPED
    few = replace(SHIPPED, prompts=29, seeds=50)
    assert verdicts.best((few, SHIPPED), CONFIG) is SHIPPED
    assert replace(SHIPPED, temperature=0.0, drafts="model K=5 greedy").has_drafts(
        verdicts.Lane(CONFIG.rule, CONFIG.drafter)
    )
