"""``mars advise`` and ``mars eval match``, as they are typed, on the bundled pair."""

from __future__ import annotations

import json
from typing import Any

import pytest

from evaluation.advise.certificate import CandidateOutcome, certify
from evaluation.advise.conduct import in_sequence
from evaluation.advise.tuning import shuffled
from evaluation.plan.plan import read_plan
from evaluation.report.files import markdown_of, purpose_json, write_report
from evaluation.report.measure import measure
from evaluation.study.engine import InProcess
from evaluation.study.launch import local_runner
from evaluation.study.worker import Work
from mars_core.session import Session
from storage import RunStore
from tests.unit.evaluation.calls import mars
from ui.tabs.study.running import resumable

SMALL = "--pair bundled --suite demo_arithmetic --batch 8 --quiet --threads 1 --dtype float32"
ADVISE = f"advise {SMALL} --limit 10 --max-new-tokens 80 --margin 0.5 --alpha 0.1"


@pytest.fixture
def opened(bundled_session: Session, monkeypatch: pytest.MonkeyPatch) -> Session:
    """The pair of every command: the one that is loaded."""
    monkeypatch.setattr("evaluation.study.launch.open_session", lambda *_: bundled_session)
    return bundled_session


def test_too_few_prompts_are_refused_before_any_run(
    url: str, store: RunStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert mars(f"advise {SMALL} --limit 20 --db {url}") == 2
    sentence = capsys.readouterr().err
    assert "16 prompts (20 without 4 that choose the settings) cannot support" in sentence
    assert "It takes 192 prompts" in sentence and not store.studies()


@pytest.mark.parametrize("command", ["advise", "eval match --tau 4"])
def test_what_does_not_reach_the_settings_is_no_option(
    url: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are chosen at all positions: a scope would be that of none of them."""
    with pytest.raises(SystemExit) as ended:
        mars(f"{command} {SMALL} --limit 20 --scope answer --db {url}")
    assert ended.value.code == 2 and "arguments: --scope answer" in capsys.readouterr().err


def test_a_setting_is_chosen_and_the_study_goes_on_where_it_stopped(
    url: str,
    store: RunStore,
    opened: Session,
    tmp_path: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert mars(f"{ADVISE} --json --db {url}") == 0
    printed = json.loads(capsys.readouterr().out)
    (head,) = store.studies()
    assert head.done == head.tasks == 6 and printed["study"] == head.id
    report = measure(store, head.id)
    certificate, plan = report.certificate, report.plan
    assert certificate is not None and certificate.chosen is not None
    assert json.loads(purpose_json(report)) == printed
    assert printed["chosen"]["rule"] == "mars" and printed["chosen"]["gain"]["tau"]["value"] > 3
    assert certificate.chosen.bound >= 0.5 and certificate.chosen.p <= 0.1
    outcomes = [each.outcome for each in certificate.candidates]
    stop = outcomes.index(CandidateOutcome.SUPPORTED)
    after = [each for each in outcomes[stop:] if each is not CandidateOutcome.SUPPORTED]
    assert all(each is CandidateOutcome.NOT_TESTED for each in after[1:])
    lanes = {each.lane for each in certificate.candidates if each.prompts} | {0}
    assert {result.lane for result in store.results(head.id)} == lanes
    assert "Which setting may be used" in markdown_of(report)
    assert write_report(store, report, tmp_path)

    again = store.new_study(plan.name, plan.as_dict(), plan.tasks)
    (first, *_) = json.loads(purpose_json(measure(store, again)))["certificate"]["candidates"]
    assert first["recovery"] is None and str(first["lost"]) == "0.0"  # nothing is decoded
    waves = in_sequence(Work(store, again), local_runner(plan, opened, InProcess(opened)))
    for events in next(waves):
        for _ in zip(events, range(6), strict=False):  # it stops in the middle
            pass
        events.close()
    begun = {result.task for result in store.results(again)}
    for task in shuffled(plan)[2:]:  # what another worker has done meanwhile
        for lane, result in store.task_results(head.id, task).items() if task not in begun else ():
            store.save_result(again, task, lane, (), result.data, order=lane, worker="")
    assert resumable(store, again)  # from the page too
    assert mars(f"eval resume {again} --quiet --threads 1 --dtype float32 --db {url}") == 0
    assert certify(plan, store.results(again)) == certificate


@pytest.mark.usefixtures("opened")
def test_rules_are_compared_at_equal_tau(
    url: str, store: RunStore, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evaluation.advise.plans.CLOSE", 0.03)  # which takes fewer rounds
    match = f"eval match {SMALL} --limit 12 --max-new-tokens 60 --db {url}"
    assert mars(f"{match} --rules mars,random") == 2
    assert mars(f"{match} --rules mars,random --speed 2") == 2
    capsys.readouterr()
    for wrong in ("--tau nan", "--tau inf", "--speed nan"):
        with pytest.raises(SystemExit):  # of argparse
            mars(f"{match} --rules none,mars {wrong} --batch 1")
        option, value = wrong.split()
        assert f"{option} is '{value}'; it must be a number" in capsys.readouterr().err, wrong
    for wrong in ("--tau 0", "--tau -1", "--speed 0"):
        assert mars(f"{match} --rules none,mars {wrong} --batch 1") == 2
        option, value = wrong.split()
        sentence = f"{option} is {value}; it must be a finite number above 0."
        assert capsys.readouterr().err.startswith(sentence), wrong
    assert mars(f"{match} --rules mars,random --tau 4.1") == 0
    (head,) = store.studies()
    plan = read_plan(store.study(head.id).plan)
    assert plan.matching is not None and plan.matching.tuning == 4 and plan.items == 8
    assert [lane.rule.name for lane in plan.lanes] == ["strict", "mars", "random"]
    assert plan.matching.reached == pytest.approx((4.1, 4.1), rel=0.05)
    (difference,) = measure(store, head.id).differences
    assert (difference.lane, difference.other, difference.prompts) == (1, 2, 8)
    assert difference.anytime.low < difference.difference.value < difference.anytime.high
    assert "Rules at equal τ" in capsys.readouterr().out
