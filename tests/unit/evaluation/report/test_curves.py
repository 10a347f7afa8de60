"""Curves of settings: a rule beside strict at a lower temperature, two rules at the same τ."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

from evaluation.plan.lane import BASELINE, SHARPENED, Lane, with_sharpened
from evaluation.plan.plan import Plan
from evaluation.report.document.build import document
from evaluation.report.values import Report
from evaluation.study.result import LaneResult, Relative
from mars_core.types import RuleConfig, Status
from tests.unit.evaluation import saved
from tests.unit.evaluation.report.drawn import NUMBERS, reported, stored, study_plan


class Truth(NamedTuple):
    log_likelihood: float  # a token
    tau: float
    right: float


STRICT = Truth(-0.8, 2.0, 0.5)
RULES = (
    (Lane(RuleConfig("mars", {"theta": 0.97}), saved.MODEL), Truth(-0.4, 2.4, 0.7)),
    (Lane(RuleConfig("mars", {"theta": 0.9}), saved.MODEL), Truth(-0.2, 3.0, 0.5)),
    (Lane(RuleConfig("mars-gap", {"gap": 0.7}), saved.MODEL), Truth(-0.9, 2.2, 0.6)),
    (Lane(RuleConfig("mars-gap", {"gap": 2.4}), saved.MODEL), Truth(-0.1, 2.8, 0.3)),
)


def plan_of(items: int) -> Plan:
    lanes = with_sharpened(
        [Lane(RuleConfig(BASELINE), saved.MODEL), *(lane for lane, _ in RULES)], (0.25, 0.5, 0.75)
    )
    plan = study_plan(items, 1, lanes=lanes, temperatures=(1.0,))
    return replace(plan, suites=plan.suites[:1])


def truth(lane: Lane) -> Truth:
    """At a lower temperature the texts are likelier and a little more often right."""
    if lane.rule.name == SHARPENED:
        return Truth(-0.8 * lane.scale, 2.0, 0.5 + 0.4 * (1 - lane.scale))
    return next((each for rule, each in RULES if rule == lane), STRICT)


def report_of(items: int) -> Report:
    plan, rows = plan_of(items), []
    for task in range(plan.tasks):
        for lane, each in enumerate(map(truth, plan.lanes)):
            result = LaneResult(
                Status.COMPLETED,
                new_tokens=round(100 * each.tau),
                steps=100,
                log_likelihood=each.log_likelihood * round(100 * each.tau),
                scores={NUMBERS: float((task * 0.618034) % 1 < each.right)},
            )
            rows.append(stored(task, lane, result, Relative(same=False)))
    return reported(plan, rows)


@pytest.fixture(scope="module")
def report() -> Report:
    return report_of(400)


def test_a_rule_is_judged_beside_the_temperature_at_which_texts_are_as_likely(
    report: Report,
) -> None:
    """One keeps what sharpening keeps, one loses against it, one is sharper than all measured
    temperatures, one writes less likely texts than strict."""
    same, worse, less, sharper = report.sharpened
    assert [row.lane for row in report.sharpened] == [1, 2, 3, 4]
    assert same.scale.value == pytest.approx(0.5)
    assert same.alone.value == pytest.approx(0.7 / 0.5, abs=0.02)
    assert same.difference.low <= 0 <= same.difference.high
    assert worse.scale.value == pytest.approx(0.25)
    assert worse.difference.high < 0 and worse.difference.value == pytest.approx(-0.3, abs=0.02)
    assert less.scale.value == 1 and less.alone.value == pytest.approx(1)
    assert less.difference.value == pytest.approx(0.1, abs=0.02)
    assert np.isnan(sharper.alone.value) and np.isnan(sharper.difference.low)


def test_two_rules_are_compared_where_both_have_the_same_tau(report: Report) -> None:
    """Between strict's τ and the smaller of their largest, on straight lines."""
    rows = report.curves
    assert [row.tau for row in rows] == pytest.approx([2.2, 2.4, 2.6, 2.8])
    for row in rows:
        one = np.interp(row.tau, [2.0, 2.4, 3.0], [0.5, 0.7, 0.5])
        other = np.interp(row.tau, [2.0, 2.2, 2.8], [0.5, 0.6, 0.3])
        assert (row.rule, row.other, row.prompts) == ("mars", "mars-gap", 400)
        assert row.score.value == pytest.approx(one, abs=0.02)
        assert row.other_score.value == pytest.approx(other, abs=0.02)
        assert row.difference.low <= one - other <= row.difference.high
    assert rows[0].difference.low <= 0 < rows[-1].difference.low
    names = {section.name for section in document(report, None).sections}
    assert names > {"sharpened", "curves"}
