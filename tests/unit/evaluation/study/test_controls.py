"""What a study runs beside its rules to judge them by: placebos, and strict at lower temperatures."""

from __future__ import annotations

import math
from collections import defaultdict
from statistics import fmean

import pytest

from evaluation.plan.lane import with_placebos, with_sharpened
from evaluation.plan.plan import Plan
from evaluation.report.files import markdown_of
from evaluation.report.measure import measure
from evaluation.study.engine import InProcess
from evaluation.study.events import LaneEnded
from evaluation.study.result import LaneResult, read_relative, read_result
from evaluation.study.runner import Runner
from mars_core.session import Session
from storage import RunStore
from tests.unit.evaluation.study.working import (
    MARS,
    STRICT,
    check_complete,
    new_study,
    run_study,
    small_plan,
    worked,
)


def test_a_placebo_imitates_the_run_of_its_task(store: RunStore, session: Session) -> None:
    """It runs after it, each turn with the number of that turn; where that is 0 it is strict's run,
    which is not stored again. Without a completed run to imitate it fails. A report says how
    closely."""
    plan = small_plan(session, lanes=with_placebos((STRICT, MARS), 2), temperatures=(0.0,))
    study = new_study(store, plan)
    mars, placebos, always = 1, range(2, 6), 6
    orders = {1: [0], 7: [*placebos, always, mars, 0]}  # of tasks that run alone, of lanes
    events = worked(store, study, plan, session, order=orders.__getitem__)
    saved = [event for event in events if isinstance(event, LaneEnded)]
    check_complete(store, study, plan)
    decoded = 0
    for task in range(plan.tasks):
        lanes = {event.lane: event for event in saved if event.task == task}
        assert list(lanes) == [always, mars, 0, *placebos]
        due = [trace.summary.relaxed for trace in lanes[mars].traces]
        for number in placebos:
            result, traces = lanes[number].result, lanes[number].traces
            assert result.due == sum(due)
            if not any(due):
                assert traces == () and result.relaxed == 0 and math.isnan(result.wall_s)
                assert result.new_tokens == lanes[0].result.new_tokens
                continue
            decoded += 1
            rules = [trace.config.rule for trace in traces]
            assert {rule.name for rule in rules} == {"placebo"}
            assert [rule.parameters["relaxed"] for rule in rules] == due
            assert {rule.parameters["best"] for rule in rules} == {plan.lanes[number].best}
            assert all(
                trace.summary.relaxed <= most for trace, most in zip(traces, due, strict=True)
            )
            assert result.relaxed == sum(trace.summary.relaxed for trace in traces)
        assert all(trace.summary.rejected == 0 for trace in lanes[always].traces)
    assert decoded
    rows = {(row.task, row.lane): read_relative(row.relative or {}) for row in store.results(study)}
    for event in saved:
        if event.lane in placebos and not event.traces:
            assert rows[event.task, event.lane].same
    for batch in (1, 2):  # its runs have been deleted
        stored = {0: (), mars: (), always: (), **dict.fromkeys(placebos[1:], ())}
        events = Runner(plan, session, InProcess(session), batch).run({0: stored})
        (ended,) = (event for event in events if isinstance(event, LaneEnded))
        assert ended.lane == placebos[0]
        assert "mars(theta=0.5) has no completed run here" in ended.result.error
    check_report(store, plan, study)


def check_report(store: RunStore, plan: Plan, study: str) -> None:
    """As many tokens of each text, less what was due where the text ended first."""
    report, results = measure(store, study), defaultdict[int, list[LaneResult]](list)
    for row in store.results(study):
        results[row.lane].append(read_result(row.data))
    for row in (each for each in report.placebos if each.group == "all"):
        ranked = row.among == "the two best"
        draws = [results[lane] for lane in plan.placebos(row.lane, ranked=ranked)]
        for rule, *drawn in zip(results[row.lane], *draws, strict=True):
            assert {each.due for each in drawn} == {rule.relaxed}
            assert all(0 <= each.relaxed <= rule.relaxed for each in drawn)
        every = [each for draw in draws for each in draw]
        assert row.rule_relaxed == pytest.approx(fmean(each.relaxed for each in results[1]))
        assert row.relaxed == pytest.approx(fmean(each.relaxed for each in every))
        assert row.shortfall == pytest.approx(fmean(each.due - each.relaxed for each in every))
        assert 0 <= row.same <= 1
    assert [row.among for row in report.placebos[-2:]] == ["all", "the two best"]
    assert "random relaxation of as many tokens" in markdown_of(report)


def test_strict_at_a_lower_temperature_is_strict_of_that_temperature(
    store: RunStore, session: Session
) -> None:
    """Its distances would be wanted from the temperature of the task, which its runs do not know."""
    plan = small_plan(session, lanes=with_sharpened((STRICT, MARS), (0.5,)), temperatures=(0.8,))
    study = run_study(store, plan, session)
    check_complete(store, study, plan)
    for row in store.results(study):
        lower = plan.lanes[row.lane].rule.name == "sharpened"
        for trace in store.traces(row.run_ids).values():
            assert trace.config.sampling.temperature == (0.4 if lower else 0.8)
            assert (trace.config.rule.name == "strict") is (row.lane != 1)
        assert math.isnan(read_result(row.data).tv_sum) is lower
