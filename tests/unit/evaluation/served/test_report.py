"""The report of a study on servers: what is unknown is displayed as unknown, and loads are those of the
results."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from display.blocks import ReportTable
from evaluation.plan.lane import Lane
from evaluation.plan.models import Served
from evaluation.report.document.build import document
from evaluation.report.values import Report
from mars_core.types import DrafterConfig, RuleConfig
from storage import StoredResult
from tests.unit.evaluation.report.drawn import drawn_results, reported, study_plan

DRAFTER = DrafterConfig("server", None, 0)
SERVED = Served("http://one/v1", "big", "http://two/v1", "big too", (1, 4))
PLAN = study_plan(
    items=10,
    repeats=4,
    served=SERVED,
    lanes=(Lane(RuleConfig("strict"), DRAFTER), Lane(RuleConfig("server"), DRAFTER)),
)
COUNTS = ("steps", "drafted", "accepted", "relaxed", "tv_sum")
UNKNOWN = dict.fromkeys(COUNTS, "nan") | {"drafted_at": [], "kept_at": []}


def results(**lane_1: Any) -> list[StoredResult]:
    """The results of lane 1 are changed."""
    rows = drawn_results(PLAN)
    return [replace(one, data=one.data | lane_1) if one.lane == 1 else one for one in rows]


def section_of(report: Report, name: str) -> ReportTable:
    """The first table of a section."""
    sections = {section.name: section for section in document(report, None).sections}
    table = sections[name].blocks[0]
    assert isinstance(table, ReportTable)
    return table


def test_the_rates_of_two_servers_are_unknown_and_loads_are_a_table() -> None:
    report = reported(PLAN, results())
    assert all(math.isnan(row.answers_per_s + row.tokens_per_s.value) for row in report.loads)
    table = section_of(report, "load")
    assert len(table.rows) == len(report.loads) == 2 * 2 * 2
    assert [cell.text for cell in table.rows[2][:3]] == ["Strict", "0", "4"]


def test_unknown_numbers_are_no_numbers() -> None:
    report = reported(PLAN, results(**UNKNOWN))
    for row in report.measured:
        assert math.isfinite(row.tokens_per_s.value + row.speedup_strict.value)
        unknown = [row.tau, row.acceptance_rate, row.relaxed_share, row.tau_ratio]
        finite = [math.isfinite(each.value) for each in unknown]
        assert all(finite[:3]) if row.lane == 0 else not any(finite)
    said = "The server did not report the steps of Served model; its τ and acceptance are unknown."
    assert said in report.warnings
    speed = section_of(report, "speed")
    tau = [head.text for head in speed.heads].index("τ")
    assert {row[tau].text for row in speed.rows if row[0].text == "Served model"} == {"–"}
    assert "–" not in {row[tau].text for row in speed.rows if row[0].text == "strict"}
    split = reported(PLAN, results(accepted="nan", relaxed="nan"))  # acceptance is known
    for row in (each for each in split.measured if each.lane == 1):
        assert 0 < row.acceptance_rate.value < 1 and math.isnan(row.relaxed_share.value)
